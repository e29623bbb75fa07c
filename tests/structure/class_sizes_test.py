"""No class of the runtime is large: data members and member functions of each are counted from its text, and no
class has more than the limits. Usage: class_sizes_test.py SOURCE_DIR | --all SOURCE_DIR | --self-test"""
import pathlib
import re
import sys

MOST_DATA = 15
MOST_FUNCTIONS = 25
COMMENT_OR_LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
PREPROCESSOR = re.compile(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
ATTRIBUTE = re.compile(r"\[\[[^\]]*\]\]|\balignas\s*\([^)]*\)|\b(?:public|private|protected)\s*:(?!:)")
TYPE = re.compile(r"^\s*(?:template\s*<[^{]*>\s*)?(?:enum\s+)?(class|struct|union|enum)\b\s*([\w:]*)")
NO_MEMBER = re.compile(r"^\s*(?:using|friend|static_assert|typedef|enum|template\s*<[^;]*>\s*friend)\b|=\s*delete\s*$"
                       r"|^\s*(?:class|struct|union)\s+\w+\s*$")
AFTER_PARAMETERS = re.compile(r"(?:\)|\b(?:const|noexcept|override|final|try)|&|>|\})\s*$")


def matching(text, begin):
    """The place behind the brace that closes the one at `begin`."""
    depth = 0
    for place in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    return len(text)


def without_nested(text, opening, closing):
    """The text without what lies between brackets, which stay."""
    depth, kept = 0, []
    for place, char in enumerate(text):
        arrow = closing == ">" and text[place - 1:place] in {"-", "="}
        if char == closing and depth > 0 and not arrow:
            depth -= 1
        if depth == 0:
            kept.append(char)
        if char == opening and not (opening == "<" and re.search(r"(?:operator|<)\s*$", text[:place])):
            depth += 1
    return "".join(kept)


def statements(body):
    """(text, inner body of a type or None) of every declaration of a class's or namespace's body."""
    begin = place = 0
    parentheses = 0
    while place < len(body):
        char = body[place]
        parentheses += {"(": 1, ")": -1}.get(char, 0)
        head = body[begin:place]
        if char == ";" and parentheses == 0:
            yield head, None
            begin = place + 1
        elif char == "{" and parentheses == 0:
            end = matching(body, place)
            is_type = TYPE.match(head) and "(" not in without_nested(head, "<", ">")
            is_scope = re.match(r"^\s*(?:inline\s+)?(?:namespace\b|extern\b\s*$)", head)
            plain = without_nested(head, "<", ">")
            initializes = re.search(r"\)\s*(?:noexcept\s*)?:(?!:)", plain) and re.search(r"\w\s*$", plain)
            is_function = "(" in plain and AFTER_PARAMETERS.search(plain) and not re.search(r"(?<!operator)=\s*$", plain)
            if is_scope:
                yield head, body[place + 1:end - 1]
                begin = end
            elif is_type:
                yield head, body[place + 1:end - 1]
                begin = end  # a declarator may follow: "} current_;"
            elif is_function and not (initializes and not AFTER_PARAMETERS.search(plain)):
                yield head, None
                begin = end
            place = end
            continue
        place += 1


def is_function(text):
    plain = without_nested(text, "<", ">")
    if re.search(r"\boperator\b", plain):
        return True
    plain = re.split(r"(?<![=!<>])=(?!=)", plain)[0]
    return "(" in plain and not re.search(r"\(\s*\*\s*\w+\s*\)\s*\(", plain)


def count_of(body):
    data = functions = 0
    for text, inner in statements(body):
        text = text.strip()
        if inner is not None or not text or NO_MEMBER.search(text):
            continue
        if is_function(text):
            functions += 1
        elif not re.match(r"(?:inline\s+)?static\b|constexpr\b", text):
            plain = without_nested(without_nested(without_nested(text, "<", ">"), "(", ")"), "{", "}")
            data += 1 + plain.count(",")
    return data, functions


def classes(text, outer=""):
    for head, inner in statements(text):
        if inner is None:
            continue
        found = TYPE.match(head)
        if not found:
            yield from classes(inner, outer)
        elif found.group(1) != "enum" and "enum" not in head.split("{")[0].split():
            name = (outer + "::" if outer else "") + found.group(2)
            yield name, *count_of(inner)
            yield from classes(inner, name)


def stripped(text):
    text = COMMENT_OR_LITERAL.sub(lambda m: '""' if m.group()[0] in "\"'" else " ", text)
    return ATTRIBUTE.sub(" ", PREPROCESSOR.sub("", text))


def sizes(root):
    for path in sorted((root / "src/runtime").rglob("*")):
        if path.suffix in {".h", ".cc"}:
            for name, data, functions in classes(stripped(path.read_text())):
                yield path.relative_to(root).as_posix(), name, data, functions


def check(root):
    for path, name, data, functions in sizes(root):
        # A record, which only holds values, may have as many as it needs.
        if functions > 0 and (data > MOST_DATA or functions > MOST_FUNCTIONS):
            yield f"{path}: {name} has {data} data members and {functions} functions: split it"


SAMPLE = """
// class Comment { int no_; };
#define MACRO class Macro { int no_; };
namespace a {
class Declared;
enum class Kind : int { one, two };
struct Record { int x = 0, y = 0; std::map<int, std::pair<int, int>> z; };
class Sample final : public Base {
 public:
  explicit Sample(int count) : count_(count), other_{count} {}
  Sample(const Sample&) = delete;
  ~Sample() { if (count_) { end(); } }
  bool operator==(const Sample&) const = default;
  template <typename T>
  void take(T&& value, int second = 0) noexcept { keep(value); }
  static const char* name() { return "name; {"; }
  std::function<void(int)> callback() const;
 private:
  using Pair = std::pair<int, int>;
  friend class Other;
  enum class State : char { a, b } state_ = State::a;
  struct Inner { int a; int b() const { return a; } } inner_;
  static constexpr int kMost = 5;
  int count_, other_{0};
  std::function<void(int, int)> on_end_;
  int (*plain_)(int) = nullptr;
  mutable std::mutex mutex_;
  const int computed_ = compute(1, 2);
  [[maybe_unused]] alignas(64) std::atomic<bool> flag_{false};
};
}
"""
EXPECTED = {"Record": (3, 0), "Sample": (9, 6), "Sample::Inner": (1, 1)}


def self_test():
    counted = {name: (data, functions) for name, data, functions in classes(stripped(SAMPLE))}
    for name in sorted(EXPECTED.keys() | counted.keys()):
        if EXPECTED.get(name) != counted.get(name):
            yield f"{name}: expected {EXPECTED.get(name)}, counted {counted.get(name)}"


if __name__ == "__main__":
    if sys.argv[1] == "--all":
        for row in sorted(sizes(pathlib.Path(sys.argv[2])), key=lambda row: (-row[2], -row[3])):
            print(*row)
        sys.exit(0)
    found = list(self_test() if sys.argv[1] == "--self-test" else check(pathlib.Path(sys.argv[1])))
    for line in found:
        print(line)
    sys.exit(1 if found else 0)
