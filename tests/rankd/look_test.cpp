// What is said of the files that a configuration names before a run starts.
#include "rankd/verbs/look.h"

#include <array>

#include "config/families/hf_config.h"
#include "config/load.h"
#include "core/files/input_files.h"
#include "model/families/zoo.h"
#include "model/hf/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/files/adapter_folder.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/golden.h"

using namespace ds;

namespace {

void put(FileSystem& fs, const std::string& path, std::string_view text) {
  fs.make_directories(parent_directory(path));
  if (fs.exists(path)) fs.remove(path);
  fs.create(path)->write(0, std::as_bytes(std::span(text)));
}

constexpr const char* kGpt2 =
    R"("model": {"family": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 8,
                                 "vocab_size": 256})";

// "66 data.train: gone.txt ...", one a line; notes without a code.
std::string look(FileSystem& memory, const std::string& text) {
  InputFiles files(memory);
  std::string out;
  const InputFindings found = look_at_inputs(parse_config("{" + text + "}"), files);
  for (const InputDefect& defect : found.defects) {
    out += fmt::format("{} {}: {}\n", static_cast<int>(defect.code), defect.key, defect.what);
  }
  for (const InputNote& note : found.notes) out += fmt::format("{}: {}\n", note.key, note.what);
  return out;
}

}  // namespace

TEST_CASE("a whole job leaves nothing to say", "[rankd]") {
  MemoryFileSystem memory;
  put(memory, "corpus.txt", "more than eight bytes");
  CHECK(look(memory, std::string(kGpt2) +
                         R"(, "data": {"train": "corpus.txt", "validation": "corpus.txt"})")
            .empty());
  CHECK(look(memory, R"("train_batch_size": 8)").empty());
}

TEST_CASE("everything that is wrong with the inputs is said at once, with the code of a run",
          "[rankd]") {
  MemoryFileSystem memory;
  put(memory, "empty.txt", "");
  const std::string said =
      look(memory, std::string(kGpt2) + R"(, "data": {"train": ["gone.txt", "empty.txt"],
      "validation": "also-gone.txt", "tokenizer": "tokens", "sequence_length": 9})");
  CHECK_THAT(said, Catch::Contains("66 data.train: open gone.txt: No such file"));
  CHECK_THAT(said, Catch::Contains("65 data.train: empty.txt: the file is empty"));
  CHECK_THAT(said, Catch::Contains("66 data.validation: open also-gone.txt"));
  CHECK_THAT(said, Catch::Contains("66 data.tokenizer: tokens: there is no such file or folder"));
  CHECK_THAT(said, Catch::Contains("78 data.sequence_length: 9, but the model has 8 positions"));
}

TEST_CASE("names that a model cannot have are refused with those it can", "[rankd]") {
  MemoryFileSystem memory;
  CHECK_THAT(look(memory, R"("model": {"family": "gpt2", "activation_function": "gelu_nu"})"),
             Catch::Contains("78 model.activation_function: ") && Catch::Contains("gelu_new"));
  CHECK_THAT(look(memory, R"("model": {"family": "llama", "hidden_act": "relu"})"),
             Catch::Contains("78 model.hidden_act: \"relu\", this build has \"silu\""));
}

TEST_CASE("a tokenizer has to fit the vocabulary, where there is text", "[rankd]") {
  MemoryFileSystem memory;
  put(memory, "corpus.txt", "more than eight bytes");
  CHECK_THAT(
      look(memory,
           R"("model": {"family": "gpt2", "n_head": 1, "n_embd": 8, "n_positions": 8,
              "vocab_size": 255},
                             "data": {"train": "corpus.txt"})"),
      Catch::Contains("78 data.tokenizer: byte has 256 tokens, but the model's vocab_size is 255"));
  std::vector<int32_t> shard(256);
  std::ranges::copy(std::array{20240520, 1, 20}, shard.begin());
  shard.resize(256 + 10);
  put(memory, "ids.bin", {reinterpret_cast<const char*>(shard.data()), shard.size() * 4});
  CHECK(look(memory, std::string(kGpt2) + R"(, "data": {"train": "ids.bin", "tokenizer": "gone"})")
            .empty());
}

TEST_CASE("the data have to give one sample at least", "[rankd]") {
  MemoryFileSystem memory;
  put(memory, "corpus.txt", "12345678");
  const std::string long_one = std::string(kGpt2) + R"(, "data": {"train": "corpus.txt"})";
  CHECK_THAT(look(memory, long_one),
             Catch::Contains("65 data.train: too little for one sample of sequence length 8"));
  put(memory, "corpus.txt", "123456789");
  CHECK(look(memory, long_one).empty());
}

TEST_CASE("data that look like something else are noted, training and validation data alike",
          "[rankd]") {
  MemoryFileSystem memory;
  put(memory, "table.csv", "id,text\n1,a\n2,b\n");
  put(memory, "lines.txt", "{\"text\": \"abcdefgh\"}\n");
  put(memory, "d/README.md", "# About the rest");
  put(memory, "d/part.jsonl", "{\"text\": \"abcdefghi\"}\n");
  const std::string said =
      look(memory, std::string(kGpt2) +
                       R"(, "data": {"train": ["table.csv", "d"], "validation": "lines.txt"})");
  CHECK_THAT(said, Catch::StartsWith("data.train: table.csv looks like a table (CSV)"));
  CHECK_THAT(said,
             Catch::Contains("\ndata.train: d/README.md is text beside JSON lines (d/part.jsonl)"));
  CHECK_THAT(said, Catch::Contains("\ndata.validation: lines.txt looks like JSON lines"));
}

TEST_CASE("a model folder is looked at as a whole", "[rankd]") {
  MemoryFileSystem memory;
  const std::string text = R"("model": "m")";
  CHECK_THAT(look(memory, text),
             Catch::Contains("66 model.folder: m: there is no such folder; a model is a "
                             "folder of this machine") &&
                 !Catch::Contains("data.tokenizer"));
  put(memory, "m/config.json", R"({"architectures": ["MambaForCausalLM"], "model_type": "mamba"})");
  CHECK_THAT(look(memory, text), Catch::Contains("78 model.folder: ") && Catch::Contains("Mamba"));
  put(memory, "m/config.json",
      R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 1, "n_head": 1,
      "n_embd": 8, "n_positions": 8, "vocab_size": 256})");
  CHECK_THAT(look(memory, text),
             Catch::Contains("66 model.folder: m: there are no weights: model.safetensors or"));
  CHECK_THAT(
      look(memory, text + R"(, "tensor_parallel": {"autotp_size": 2, "partition_config": {
                 "layer_specs": [{"patterns": [".*c_proj"]}]}})"),
      Catch::Contains("78 tensor_parallel.partition_config: layer_specs[0] says \"column\""));
  CHECK_THAT(look(memory, text + R"(, "tensor_parallel": {"autotp_size": 2, "partition_config": {
                 "layer_specs": [{"patterns": ["nothing"]}]}})"),
             Catch::Contains("\ntensor_parallel.partition_config: layer_specs[0] is for no layer"));
  const std::vector<float> zeros(8);
  write_safetensors(memory, "m/model.safetensors",
                    std::vector<SafetensorsTensor>{{.name = "h.0.ln_1.weight",
                                                    .dtype = DType::kF32,
                                                    .shape = {8},
                                                    .data = std::as_bytes(std::span(zeros))}});
  CHECK_THAT(look(memory, text),
             Catch::Contains("65 model.folder: m: weights without transformer.wte.weight"));
}

TEST_CASE("what of a folder is left out, and what begins anew, is noted", "[rankd]") {
  MemoryFileSystem memory;
  put(memory, "m/config.json",
      R"({"architectures": ["BertModel"], "model_type": "bert", "num_hidden_layers": 1,
      "num_attention_heads": 1, "hidden_size": 8, "intermediate_size": 8,
      "max_position_embeddings": 8, "vocab_size": 256})");
  const std::vector<float> zeros(size_t{256} * 8);
  std::vector<SafetensorsTensor> tensors;
  const auto add = [&](const std::string& name, const Shape& shape) {
    const auto numel = static_cast<size_t>(shape.numel());
    tensors.push_back({.name = name,
                       .dtype = DType::kF32,
                       .shape = shape,
                       .data = std::as_bytes(std::span(zeros).first(numel))});
  };
  add("pooler.dense.bias", {8});
  for (const ParamSpec& spec : specs_of_model(read_hf_config(memory, "m"), DType::kF32)) {
    if (spec.name.starts_with("bert.")) add(spec.name.substr(5), spec.shape);
  }
  write_safetensors(memory, "m/model.safetensors", tensors);
  const std::string said = look(memory, R"("model": "m")");
  CHECK_THAT(said, Catch::Contains("pooler.dense.bias are left out: BertForMaskedLM has no place"));
  CHECK_THAT(said, Catch::Contains("cls.predictions.bias") &&
                       Catch::Contains("begin anew, by train.seed: BertModel has no head"));
}

TEST_CASE("adapters that fit no layer are notes, and defects where none fits", "[rankd]") {
  MemoryFileSystem memory;
  const auto said = [&](const std::string& lora) {
    return look(memory, std::string(kGpt2) + R"(, "lora": )" + lora);
  };
  CHECK(said(R"({"target_modules": "c_attn"})").empty());
  CHECK_THAT(
      said(R"({"target_modules": ["c_attn", "q_proj"]})"),
      Catch::StartsWith("lora.target_modules: q_proj fit no layer of the model, which has "));
  CHECK_THAT(said(R"({"target_modules": "q_proj"})"),
             Catch::StartsWith("78 lora.target_modules: q_proj fit no linear layer"));
  CHECK_THAT(said(R"({"layers_to_transform": 5})"),
             Catch::StartsWith("78 lora.layers_to_transform: 5, but the model has 1 blocks"));
}

TEST_CASE("adapters to begin with are compared with the model by their headers", "[rankd]") {
  RealFileSystem files;
  const ds::testing::TemporaryDirectory root;
  const std::string golden = ds::testing::source_directory() + "/tests/golden/";
  const std::string adapters = (root.path() / "adapters").string();
  ds::testing::write_adapters(files, {.folder = adapters, .base = golden + "supervised/model"});
  const auto said = [&](const std::string& model) {
    return look(files, fmt::format(R"("model": "{}", "lora": {{"adapter": "{}"}})", golden + model,
                                   adapters));
  };
  CHECK(said("supervised/model").empty());
  CHECK_THAT(said("families/qwen2"), Catch::StartsWith("65 lora.adapter: ") &&
                                         Catch::Contains("adapter_model.safetensors"));
  const std::string config = adapters + "/adapter_config.json";
  files.write_text_atomically(config, "{");
  CHECK_THAT(said("supervised/model"),
             Catch::StartsWith("65 lora.adapter: ") && Catch::Contains("adapter_config.json"));
  files.remove(config);
  CHECK_THAT(said("supervised/model"), Catch::StartsWith("66 lora.adapter: "));
}
