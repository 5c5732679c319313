// What a Hugging Face folder says of generating: the tokens that end a text, which file says so, in
// which form, and what is no id; how tokens are drawn, what is not applied, and what is refused.
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

GenerationDefaults defaults_of(const std::string& generation) {
  MemoryFileSystem files;
  files.create("/generation_config.json")->write(0, std::as_bytes(std::span(generation)));
  return read_generation_defaults(files, "/");
}

std::string refusal_of(const std::string& generation) {
  try {
    defaults_of(generation);
  } catch (const DataError& error) {
    return error.what();
  }
  return "taken";
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

TEST_CASE("of a key that stands twice the last value counts, as in Python", "[model]") {
  CHECK(ids_of(R"({"eos_token_id": 2, "eos_token_id": 3})") == Ids{3});
  CHECK(ids_of(R"({"eos_token_id": 2, "eos_token_id": null})") == std::nullopt);
  CHECK(defaults_of(R"({"temperature": 0.5, "top_k": 3, "temperature": 0.25})").temperature ==
        0.25);
}

TEST_CASE("what is no id is refused with the file's name", "[model]") {
  for (const char* config : {R"({"eos_token_id": "</s>"})", R"({"eos_token_id": -1})",
                             R"({"eos_token_id": [1, "a"]})", "[]", "{"}) {
    CHECK_THROWS_AS(ids_of(config), DataError);
  }
}

TEST_CASE("generation_config.json says how tokens are drawn", "[model]") {
  const GenerationDefaults all = defaults_of(
      R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.05,
          "repetition_penalty": 1.05, "max_new_tokens": 2048, "eos_token_id": [1, 2],
          "pad_token_id": 0, "transformers_version": "5.24.0"})");
  CHECK(all.do_sample == true);
  CHECK(all.temperature == 0.6);
  CHECK(all.top_k == 20);
  CHECK(all.top_p == 0.95);
  CHECK(all.min_p == 0.05);
  CHECK(all.repetition_penalty == 1.05);
  CHECK(all.max_new_tokens == 2048);
  CHECK(all.not_applied.empty());
}

TEST_CASE("what generation_config.json leaves out has no value, and nor has anything without it",
          "[model]") {
  MemoryFileSystem files;
  for (const GenerationDefaults& none :
       {read_generation_defaults(files, "/"), defaults_of("{}"),
        defaults_of(R"({"temperature": null, "top_k": null, "max_new_tokens": null})")}) {
    CHECK_FALSE(none.do_sample);
    CHECK_FALSE(none.temperature);
    CHECK_FALSE(none.top_k);
    CHECK_FALSE(none.max_new_tokens);
    CHECK(none.not_applied.empty());
  }
  CHECK(defaults_of(R"({"temperature": 1, "top_p": 1, "top_k": 0})").temperature == 1.0);
}

TEST_CASE("keys that would change the text and are not applied are named with their values",
          "[model]") {
  using Words = std::vector<std::string>;
  CHECK(defaults_of(R"({"num_beams": 4, "typical_p": 0.9, "no_repeat_ngram_size": 3,
                        "bad_words_ids": [[5]], "length_penalty": 2.0, "max_length": 20})")
            .not_applied == Words{"num_beams 4", "typical_p 0.9", "no_repeat_ngram_size 3",
                                  "bad_words_ids a list", "max_length 20"});
  CHECK(defaults_of(R"({"num_beams": 1, "typical_p": 1.0, "penalty_alpha": 0, "stop_strings": null,
                        "suppress_tokens": [], "token_healing": false, "guidance_scale": 1})")
            .not_applied.empty());
  // A key that is not known may change anything.
  CHECK(defaults_of(R"({"of_tomorrow": {"a": 1}})").not_applied == Words{"of_tomorrow an object"});
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  CHECK(defaults_of(R"({"of_tomorrow": )" + deep + "}").not_applied == Words{"of_tomorrow a list"});
}

TEST_CASE("values that are none of their keys are refused with file, key and what is expected",
          "[model]") {
  CHECK(refusal_of(R"({"temperature": "hot"})") ==
        "/generation_config.json: \"temperature\" is \"hot\", expected a finite number from 0 on; "
        "correct it there, or remove it");
  for (const char* const bad :
       {R"({"temperature": -1})", R"({"temperature": NaN})", R"({"temperature": Infinity})",
        R"({"top_k": -1})", R"({"top_k": 1.5})", R"({"top_p": 0})", R"({"top_p": 1.5})",
        R"({"min_p": 2})", R"({"repetition_penalty": 0})", R"({"max_new_tokens": 0})",
        R"({"do_sample": 1})", "[]", "{"}) {
    CAPTURE(bad);
    CHECK_THAT(refusal_of(bad), Catch::StartsWith("/generation_config.json: "));
  }
}
