// Folders of classes without a head ("BertModel"), which models of embeddings are published as:
// names begin in the body, and whoever trains them makes the head anew.
#include <numeric>

#include "config/families/hf_config.h"
#include "config/reader/json_reader.h"
#include "core/values/index.h"
#include "model/families/zoo.h"
#include "model/hf/weights.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/tiny_models.h"

namespace ds {
namespace {

using testing::CpuStream;

std::string headless_name(const ModelConfig& model) {
  const HfClasses classes = hf_classes(model);
  return std::string(classes.headless.empty() ? classes.body : classes.headless);
}

// The model's config.json, of another class.
std::string config_of(const ModelConfig& model, const std::string& name) {
  std::string text = format_hf_config(model, DType::kF32);
  const std::string own(hf_classes(model).model);
  return text.replace(text.find(own), own.size(), name);
}

bool is_in_body(const ModelConfig& model, const std::string& name) {
  return name.starts_with(std::string(transformer_spec(model).names.body) + ".");
}

// As a class without a head names it: without the first word of the body's path.
std::string without_first_word(const std::string& name) { return name.substr(name.find('.') + 1); }

std::vector<float> numbers_of(const ExportTensor& entry) {
  std::vector<float> out(to_size(entry.tensor.shape.numel()));
  std::iota(out.begin(), out.end(), static_cast<float>(entry.tensor.name.size()));
  return out;
}

struct Folder {
  std::string config_name;
  bool has_head = false;
  std::string lacks = "";  // a tensor
};

void write_folder(MemoryFileSystem& files, const ModelConfig& model, const Folder& folder) {
  files.make_directories("/m");
  files.write_text_atomically("/m/config.json", config_of(model, folder.config_name));
  const std::vector<ParamSpec> specs = specs_of_model(model, DType::kF32);
  std::vector<SafetensorsTensor> tensors;
  std::vector<std::vector<float>> values;
  for (const ExportTensor& entry : export_list(specs, DType::kF32)) {
    const std::string& name = entry.tensor.name;
    if (name == folder.lacks || (!folder.has_head && !is_in_body(model, name))) continue;
    tensors.push_back(entry.tensor);
    values.push_back(numbers_of(entry));
    if (!folder.has_head) tensors.back().name = without_first_word(name);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].data = std::as_bytes(std::span(values[i]));
  }
  write_safetensors(files, "/m/model.safetensors", tensors);
}

TEST_CASE("every family is read from a folder of its class without a head", "[model]") {
  CpuStream cpu;
  for (const ModelConfig& model : testing::tiny_models(2)) {
    CAPTURE(family_name(model));
    MemoryFileSystem files;
    write_folder(files, model, {.config_name = headless_name(model)});
    CHECK(headless_class(files, "/m") == headless_name(model));
    const ModelConfig read = read_hf_model(files, "/m");
    CHECK(family_name(read) == family_name(model));
    const std::vector<ParamSpec> specs = specs_of_model(read, DType::kF32);
    const HfWeights weights(files, "/m", specs);
    CHECK(weights.headless() == headless_name(model));
    std::vector<std::string> fresh;
    for (size_t i = 0; i < specs.size(); ++i) {
      const bool is_body = is_in_body(model, specs[i].name);
      CHECK(weights.is_stored(i) == is_body);
      Tensor flat = Tensor::empty({specs[i].shape.numel()}, DType::kF32, cpu.stream);
      if (!is_body) {
        fresh.push_back(specs[i].name);
        CHECK_THROWS_AS(weights.read(i, 0, flat), InternalError);
        continue;
      }
      weights.read(i, 0, flat);
      if (specs[i].stored) continue;  // which rows of the joined one it has is another test's
      std::vector<float> wanted;
      for (const ExportTensor& entry : export_list({&specs[i], 1}, DType::kF32)) {
        const std::vector<float> piece = numbers_of(entry);
        wanted.insert(wanted.end(), piece.begin(), piece.end());
      }
      CHECK(std::vector<float>(flat.data<float>(), flat.data<float>() + flat.numel()) == wanted);
    }
    CHECK(weights.fresh() == fresh);
    CHECK(fresh.empty() == (ties_embeddings(model) && is_causal(model)));
    CHECK(weights.bytes() > 0);
  }
}

TEST_CASE("a head that is missing is anew only in a class that has none", "[model]") {
  const ModelConfig model = testing::tiny_like_bert<BertConfig>(1);
  const auto refusal = [&](const Folder& folder) -> std::string {
    MemoryFileSystem files;
    write_folder(files, model, folder);
    try {
      const HfWeights weights(files, "/m", specs_of_model(model, DType::kF32));
      return fmt::format("accepted, {} anew", weights.fresh().size());
    } catch (const DataError& error) {
      return error.what();
    }
  };
  CHECK(refusal({.config_name = "BertModel"}) == "accepted, 5 anew");
  CHECK(refusal({.config_name = "BertModel", .has_head = true}) == "accepted, 0 anew");
  CHECK_THAT(refusal({.config_name = "BertForMaskedLM"}),
             Catch::Contains("weights without cls.predictions.transform.dense.weight"));
  CHECK_THAT(refusal({.config_name = "BertForPreTraining"}), Catch::Contains("weights without"));
  CHECK_THAT(refusal({.config_name = "BertModel", .lacks = "bert.embeddings.LayerNorm.weight"}),
             Catch::Contains("weights without bert.embeddings.LayerNorm.weight"));
}

TEST_CASE("what is trained from such a folder is written as the class with the head", "[model]") {
  const ModelConfig model = testing::tiny_like_bert<BertConfig>(1);
  for (const char* const name : {"BertModel", "BertForPreTraining", "BertForMaskedLM"}) {
    const std::string kept = keep_hf_config(config_of(model, name), "c", model, DType::kF32);
    const Value json = read_config_document(kept, "c");
    CHECK(json.find("architectures")->items().front().as_string() == "BertForMaskedLM");
  }
  MemoryFileSystem files;
  write_folder(files, model, {.config_name = "BertForMaskedLM", .has_head = true});
  CHECK(headless_class(files, "/m").empty());
  CHECK(headless_class(files, "/nowhere").empty());
}

TEST_CASE("names may lack the first word of the body's path, or all of it", "[model]") {
  const std::string whole = "model.decoder.layers.0.fc1.weight";
  for (const char* const stored : {"model.decoder.layers.0.fc1.weight",
                                   "decoder.layers.0.fc1.weight", "layers.0.fc1.weight"}) {
    CHECK(stored_name_of(whole, {stored, "fc1.weight", "0.fc1.weight"}) == stored);
  }
}

}  // namespace
}  // namespace ds
