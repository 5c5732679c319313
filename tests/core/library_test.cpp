// Libraries opened by their sonames, as the loader finds them: beside this program, where
// tests/core/CMakeLists.txt has put some.
#include "core/libraries/library.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Catch::Contains;
using Catch::EndsWith;

LibraryKind example(std::vector<std::string> sonames) {
  return {.name = "Example",
          .purpose = "tests",
          .sonames = std::move(sonames),
          .source = "libexample2 (apt)",
          .version = [](const Library& library) -> std::optional<std::string> {
            const auto ask = library.find<int (*)()>("example_version");
            return ask != nullptr ? std::optional(std::to_string(ask())) : std::nullopt;
          }};
}

std::string refusal_of(const std::vector<std::string>& sonames) {
  try {
    const Library library(example(sonames));
  } catch (const Unsupported& refusal) {
    return refusal.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a library is opened by its soname and tells file, version and functions", "[core]") {
  const Library library(example({"libdsl_example.so.2"}));
  CHECK(library.kind().name == "Example");
  CHECK_THAT(library.file(), EndsWith("/libdsl_example.so.2"));
  CHECK(library.version() == "20304");
  CHECK(library.function<int (*)(int)>("example_answer")(21) == 42);
  CHECK(library.find<int (*)(int)>("example_question") == nullptr);
}

TEST_CASE("the first soname that opens is taken", "[core]") {
  const Library library(example({"libdsl_example.so.3", "libdsl_example.so.2"}));
  CHECK_THAT(library.file(), EndsWith("/libdsl_example.so.2"));
}

TEST_CASE("a function that a library lacks is told with its file, version and source", "[core]") {
  const Library library(example({"libdsl_example.so.2"}));
  CHECK_THROWS_AS(library.function<int (*)()>("example_question"), Unsupported);
  CHECK_THROWS_WITH(library.function<int (*)()>("example_question"),
                    "Example 20304 (" + library.file() +
                        ") has no function example_question; install a newer one: "
                        "libexample2 (apt)");
  LibraryKind nameless = example({"libdsl_example.so.2"});
  nameless.version = nullptr;
  CHECK_THROWS_WITH(Library(nameless).function<int (*)()>("example_question"),
                    Contains("Example of unknown version ("));
}

TEST_CASE("a library that is not there is told with all that was tried", "[core]") {
  CHECK(refusal_of({"libdsl_example.so.4", "libdsl_example.so.3"}) ==
        "Example could not be opened (libdsl_example.so.4: cannot open shared object file: No such "
        "file or directory; libdsl_example.so.3: cannot open shared object file: No such file or "
        "directory); install libexample2 (apt), or name its folder in LD_LIBRARY_PATH");
}

TEST_CASE("what is no library, and one that lacks others, are told in the loader's words",
          "[core]") {
  CHECK_THAT(refusal_of({"libdsl_text.so.1"}),
             Contains("libdsl_text.so.1: file too short") || Contains("invalid ELF header"));
  // At once, and not when the function is called that calls the missing one.
  const std::string unresolved = refusal_of({"libdsl_unresolved.so.1"});
  CHECK_THAT(unresolved, Contains("libdsl_unresolved.so.1: ") &&
                             Contains("undefined symbol: example_function_of_no_library"));
}

TEST_CASE("what a library has given can be called when it was let go", "[core]") {
  int (*answer)(int) = nullptr;
  {
    Library first(example({"libdsl_example.so.2"}));
    const Library second(std::move(first));
    answer = second.function<int (*)(int)>("example_answer");
  }
  CHECK(answer(2) == 4);
}

}  // namespace ds
