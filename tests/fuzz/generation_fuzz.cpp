// Fuzzes what generate and eval read beside the model: prompts as JSON lines,
// generation_config.json, and the files of sentence-transformers.
#include <rapidjson/document.h>

#include "cli/verbs/prompts.h"
#include "model/hf/embedding_recipe.h"
#include "model/hf/generation.h"
#include "tests/fuzz/one_input.h"

namespace {

// What is carried goes into a line of JSON as it is.
void expect_one_value(const ds::CarriedField& field) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag>(
      field.json.data(), field.json.size());
  if (document.HasParseError() || field.json.find('\n') != std::string::npos) {
    throw ds::InternalError("a carried field that is not one value on one line");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ds::fuzz::expect_refusal_or_success([&] {
    for (const ds::PromptRecord& record : ds::records_of_json_lines(text, "input")) {
      for (const ds::CarriedField& field : record.carried) expect_one_value(field);
    }
  });
  ds::MemoryFileSystem files;
  ds::fuzz::put(files, "/generation_config.json", ds::fuzz::bytes_of(data, size));
  ds::fuzz::expect_refusal_or_success([&] {
    ds::read_generation_defaults(files, "/");
    ds::read_eos_ids(files, "/");
  });
  for (const char* const name :
       {"/modules.json", "/sentence_bert_config.json", "/1_Pooling/config.json"}) {
    ds::MemoryFileSystem folder;
    folder.make_directories("/1_Pooling");
    ds::fuzz::put(folder, name, ds::fuzz::bytes_of(data, size));
    ds::fuzz::expect_refusal_or_success([&] { ds::read_embedding_recipe(folder, "/"); });
  }
  return 0;
}
