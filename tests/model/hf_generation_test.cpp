// The tokens that end a text: which file says so, in which form, and what is no id.
#include "model/hf/generation.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;

namespace {

using Ids = std::vector<int32_t>;

std::optional<Ids> ids_of(const std::string& config, const std::string& generation = "") {
  MemoryFileSystem files;
  files.create("/config.json")->write(0, std::as_bytes(std::span(config)));
  if (!generation.empty()) {
    files.create("/generation_config.json")->write(0, std::as_bytes(std::span(generation)));
  }
  return read_eos_ids(files, "/");
}

}  // namespace

TEST_CASE("end-of-text ids are a number, a list or nothing", "[model]") {
  CHECK(ids_of(R"({"eos_token_id": 2})") == Ids{2});
  CHECK(ids_of(R"({"eos_token_id": [128001, 128009]})") == Ids{128001, 128009});
  CHECK(ids_of(R"({"eos_token_id": null})") == std::nullopt);
  CHECK(ids_of("{}") == std::nullopt);
}

TEST_CASE("generation_config.json wins where it speaks of them", "[model]") {
  CHECK(ids_of(R"({"eos_token_id": 2})", R"({"eos_token_id": [3, 4]})") == Ids{3, 4});
  CHECK(ids_of(R"({"eos_token_id": 2})", R"({"max_length": 20})") == Ids{2});
}

TEST_CASE("what is no id is refused with the file's name", "[model]") {
  for (const char* config : {R"({"eos_token_id": "</s>"})", R"({"eos_token_id": -1})",
                             R"({"eos_token_id": [1, "a"]})", "[]", "{"}) {
    CHECK_THROWS_AS(ids_of(config), DataError);
  }
}
