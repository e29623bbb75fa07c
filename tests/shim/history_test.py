"""Every structure of NCCL 2.7 to 2.32 lies in this library's header as it lay there, and every enumerator has its value: a later
version only adds at the end. Usage: history_test.py CC INCLUDE_FOLDER TABLE     (record_layouts.py makes the table)"""
import os
import subprocess
import sys
import tempfile

compiler, include, table = sys.argv[1:]
checks = []
with open(table) as file:
    for line in file:
        span, name, *rest = line.split()
        if name == "enum":
            pairs = [pair.split("=") for pair in rest]
            checks += [(f"(int){one} == {value}", f"{one} of {span}") for one, value in pairs]
            continue
        size, fields = int(rest[0]), [pair.split("=") for pair in rest[1:]]
        checks.append((f"sizeof({name}) >= {size}", f"size of {name} of {span}"))
        checks += [(f"offsetof({name}, {field}) == {offset}", f"{name}.{field} of {span}") for field, offset in fields]
versions = {line.split("-")[0].rsplit(".", 1)[0] for line in open(table)}
if len(checks) < 200 or not {"2.7", "2.14", "2.32"} <= versions:
    sys.exit(f"{table} has {len(checks)} checks of {sorted(versions)}: too few")
source = '#include <stddef.h>\n#include "nccl_shim/nccl.h"\n' + "".join(
    f'_Static_assert({check}, "{what}");\n' for check, what in checks) + "int main(void) { return 0; }\n"
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "history.c")
    with open(path, "w") as file:
        file.write(source)
    result = subprocess.run([compiler, "-std=c11", "-I", include, path, "-o", os.path.join(folder, "history")])
print(f"{len(checks)} checks")
sys.exit(result.returncode)
