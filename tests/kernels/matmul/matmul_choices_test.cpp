// The file of matmul choices: what is read back, what is passed over, and who comes first.
#include "kernels/matmul/matmul_choices.h"

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds::kernels {
namespace {

const MatmulPlace kPlace{.gpu = "NVIDIA H200", .library = "cuBLASLt 130200"};
const MatmulChoices::Algorithm kOne{1, 2, 3, 4, 5, 6, 7, 0xfedcba9876543210};
const MatmulChoices::Algorithm kOther{8, 7};
constexpr const char* kFile = "cache/matmul.txt";

std::string why_not(std::string_view text) {
  try {
    parse_choices(text, kPlace);
    return "";
  } catch (const DataError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("choices are text that a person can read, and come back as they were", "[kernels]") {
  const MatmulChoices::Table table{{"64,48,-1", kOne}, {"8,8,8", kOther}};
  const std::string text = choices_text(kPlace, table);
  CHECK_THAT(text, Catch::StartsWith("dslaunch matmul choices 1\nNVIDIA H200\ncuBLASLt 130200\n"
                                     "64,48,-1 00000000000000010000000000000002"));
  CHECK(parse_choices(text, kPlace) == table);
  CHECK(parse_choices(choices_text(kPlace, {}), kPlace).empty());
  CHECK(choices_file_name(kPlace) == "matmul-NVIDIA-H200-cuBLASLt-130200.txt");
}

TEST_CASE("a file that is cut, changed, or of another GPU, library or version is none",
          "[kernels]") {
  const std::string text = choices_text(kPlace, {{"64,48", kOne}, {"8,8,8", kOther}});
  for (size_t length = 0; length < text.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(why_not(text.substr(0, length)).empty());
  }
  for (size_t at = 0; at < text.size(); ++at) {
    CAPTURE(at);
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK_FALSE(why_not(changed).empty());
  }
  CHECK_FALSE(why_not(text + "8,8 0\n").empty());
  CHECK_THAT(why_not("dslaunch matmul choices 2\n"), Catch::Contains("of this version"));
  CHECK(why_not(choices_text({.gpu = "NVIDIA A100", .library = kPlace.library}, {})) ==
        "is of NVIDIA A100 with cuBLASLt 130200, not of NVIDIA H200 with cuBLASLt 130200");
  CHECK_THAT(why_not(choices_text(kPlace, {{"8;8", kOne}})), Catch::Contains("no choice"));
}

TEST_CASE("choices are kept in their file, and the first for a shape counts", "[kernels]") {
  MemoryFileSystem files;
  MatmulChoices one(files, kFile, kPlace), other(files, kFile, kPlace);
  CHECK_FALSE(one.find("8,8"));
  CHECK(one.keep("8,8", kOne) == kOne);
  CHECK(one.find("8,8") == kOne);
  CHECK(other.keep("8,8", kOther) == kOne);  // a rank beside it was quicker
  CHECK(other.keep("9,9", kOther) == kOther);
  const MatmulChoices next(files, kFile, kPlace);
  CHECK(next.size() == 2);
  CHECK(next.find("9,9") == kOther);
  CHECK(next.problem().empty());
  CHECK(files.list("cache").size() == 1);
}

TEST_CASE("a file that cannot be used or written is a problem to tell, and ends nothing",
          "[kernels]") {
  MemoryFileSystem files;
  files.make_directory("cache");
  files.write_text_atomically(kFile, "something else\n");
  MatmulChoices choices(files, kFile, kPlace);
  CHECK(choices.problem() ==
        "cache/matmul.txt is passed over: is no list of matmul choices of this version");
  CHECK(choices.keep("8,8", kOne) == kOne);
  CHECK(MatmulChoices(files, kFile, kPlace).find("8,8") == kOne);  // written anew

  MemoryFileSystem full(16);
  MatmulChoices nowhere(full, kFile, kPlace);
  CHECK(nowhere.keep("8,8", kOne) == kOne);
  CHECK(nowhere.find("8,8") == kOne);
  CHECK_THAT(nowhere.problem(), Catch::StartsWith("cache/matmul.txt cannot be written: "));
}

}  // namespace ds::kernels
