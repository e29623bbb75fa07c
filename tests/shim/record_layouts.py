"""Records how NCCL's headers lay their structures out, and what their enumerators are worth, for history_test.py.

Usage: record_layouts.py NCCL.H ... > history.txt       (the headers in the order of their versions; needs cc and CUDA's headers)

A line of the table: FIRST-LAST NAME SIZE FIELD=OFFSET..., or FIRST-LAST enum NAME=VALUE..., for the versions between which the
layout is the same."""
import os
import re
import subprocess
import sys
import tempfile

STRUCTS = ("ncclUniqueId", "ncclConfig_t", "ncclSimInfo_t", "ncclWaitSignalDesc_t", "ncclConfigExt_t", "ncclCollConfig_t",
           "ncclEncryptionConfig_t")
ENUMS = ("ncclResult_t", "ncclDataType_t", "ncclRedOp_t", "ncclScalarResidence_t")
# Not values but bounds, which grow with every addition.
BOUNDS = ("ncclNumResults", "ncclNumTypes", "ncclNumOps", "ncclMaxRedOp", "ncclRedOp_t")


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def fields_of(text, name):
    """The names of the fields, from the last struct that ends with this name."""
    found = re.search(r"typedef\s+struct\s*\w*\s*\{((?:[^{}]|\{[^{}]*\})*)\}\s*" + name + r"\s*;", text)
    if not found:
        return None
    body = re.sub(r"(struct|union)\s*\{[^{}]*\}", "int", found.group(1))
    return [re.search(r"(\w+)\s*(\[[^\]]*\])?\s*$", field.strip()).group(1) for field in body.split(";") if field.strip()]


def enumerators_of(text, name):
    found = re.search(r"typedef\s+enum\s*\w*\s*\{([^{}]*)\}\s*" + name + r"\s*;", text)
    names = re.findall(r"(?:^|,)\s*(\w+)", found.group(1)) if found else []
    return [one for one in names if one not in BOUNDS]


def layout(header):
    with open(header) as file:
        raw = file.read()
    text = without_comments(re.sub(r"^\s*#.*$", "", raw, flags=re.M))
    lines = ['#include <stdio.h>', '#include <stddef.h>', f'#include "{os.path.abspath(header)}"', "int main(void) {",
             r'printf("%d.%d.%d\n", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);']
    for name in STRUCTS:
        fields = fields_of(text, name)
        if fields is None:
            continue
        lines.append(f'printf("{name} %zu", sizeof({name}));')
        lines += [f'printf(" {field}=%zu", offsetof({name}, {field}));' for field in fields]
        lines.append(r'printf("\n");')
    lines.append('printf("enum");')
    for name in ENUMS:
        lines += [f'printf(" {one}=%d", (int){one});' for one in enumerators_of(text, name)]
    lines += [r'printf("\n");', "return 0; }"]
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
        with open(source, "w") as file:
            file.write("\n".join(lines))
        subprocess.run(["cc", "-w", "-D__CUDA_BF16_TYPES_EXIST__=1", "-D__CUDA_FP8_TYPES_EXIST__=1", "-I/usr/local/cuda/include", source, "-o", program], check=True)
        answer = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    return answer[0], {line.split()[0]: line for line in answer[1:]}


def main(headers):
    spans = {}
    order = []
    for header in headers:
        version, lines = layout(header)
        for name, line in lines.items():
            if spans.get(name, ("", "", ""))[2] == line:
                spans[name][1] = version
            else:
                spans[name] = [version, version, line]
                order.append(spans[name])
    for first, last, line in order:
        print(f"{first}-{last} {line}")


if __name__ == "__main__":
    main(sys.argv[1:])
