// A trained model as a Hugging Face folder: what stands beside the weights, and the weights.
#include "train/model_folder.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "config/families/hf_config.h"
#include "config/reader/json_reader.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "model/hf/safetensors.h"
#include "model/hf/weights.h"
#include "tests/support/catch.h"
#include "tests/support/files/fault_file_system.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/ranks.h"
#include "tests/support/tiny_models.h"
#include "tests/train/runs/small_engine.h"
#include "train/checkpointing.h"
#include "train/workspace.h"

namespace ds {
namespace {

using namespace testing;

void put(FileSystem& files, const std::string& path, std::string_view text) {
  files.make_directories(parent_directory(path));
  if (files.exists(path)) files.remove(path);
  files.create(path)->write(0, std::as_bytes(std::span(text)));
}

ModelConfig small_model() { return options_of({}).model; }

// A tag of the small model on this disk; `change` may set weights before it is saved.
struct SavedModel {
  std::vector<ParamSpec> specs;
  std::map<std::string, std::vector<float>> state;
};
SavedModel save(FileSystem& files, const std::function<void(Engine&)>& change = {}) {
  SavedModel out;
  test::run_ranks(1, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    Engine engine(options_of({}), workspace.resources(), std::nullopt);
    engine.initialize();
    if (change) change(engine);
    JobPlan plan;
    plan.run_dir = "/run";
    Checkpointing checkpoints(engine, files, plan, {});
    engine.restore_step(3);
    checkpoints.save();
    Outcome all;
    std::mutex mutex;
    collect(engine, all, mutex);
    out = {specs_of(engine.store()), std::move(all.state)};
  });
  return out;
}

FolderFrame frame_of(FileSystem& files, DType dtype) {
  return folder_frame(files, small_model(), std::nullopt, "byte", dtype);
}

void export_to(FileSystem& files, const SavedModel& saved, FolderFrame frame) {
  CheckpointReader reader = CheckpointReader::open(files, "/run/checkpoints", "global_step3");
  write_model_folder(files, {"/final", std::move(frame), saved.specs}, reader);
}

std::vector<float> floats_in(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsInfo& info = file.info(name);
  std::vector<std::byte> bytes(static_cast<size_t>(info.bytes));
  file.read(name, bytes);
  std::vector<float> out(static_cast<size_t>(info.shape.numel()));
  for (size_t i = 0; i < out.size(); ++i) {
    if (info.dtype() == DType::kF32) {
      std::memcpy(&out[i], bytes.data() + 4 * i, 4);
    } else {  // bf16 is the upper half
      uint32_t bits = 0;
      std::memcpy(reinterpret_cast<char*>(&bits) + 2, bytes.data() + 2 * i, 2);
      std::memcpy(&out[i], &bits, 4);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("an exported folder holds every weight to the bit, and a configuration of its type",
          "[train]") {
  MemoryFileSystem files;
  const SavedModel saved = save(files);
  export_to(files, saved, frame_of(files, DType::kF32));
  const SafetensorsFile weights = SafetensorsFile::open(files, "/final/model.safetensors");
  size_t found = 0;
  for (const ParamSpec& spec : saved.specs) {
    if (!weights.contains(spec.name)) continue;
    ++found;
    CHECK(weights.info(spec.name).shape == spec.shape);
    CHECK(floats_in(weights, spec.name) == saved.state.at(spec.name + "/weight"));
  }
  CHECK(found == weights.names().size());
  CHECK(found > 20);
  const Value config =
      read_config_document(files.read_text("/final/config.json", 1 << 20), "config.json");
  CHECK(config.find("model_type")->as_string() == "gpt2");
  CHECK(config.find("n_layer")->as_integer() == 2);
  CHECK(config.find("vocab_size")->as_integer() == 29);
}

TEST_CASE("weights of half the bits are the nearest ones", "[train]") {
  MemoryFileSystem files;
  const SavedModel saved = save(files);
  export_to(files, saved, frame_of(files, DType::kBF16));
  const SafetensorsFile weights = SafetensorsFile::open(files, "/final/model.safetensors");
  for (const std::string& name : weights.names()) {
    CHECK(weights.info(name).dtype() == DType::kBF16);
    const std::vector<float> stored = floats_in(weights, name);
    const std::vector<float>& exact = saved.state.at(name + "/weight");
    REQUIRE(stored.size() == exact.size());
    for (size_t i = 0; i < exact.size(); ++i) {
      // Eight bits of a number: the nearest is within half of the last one.
      REQUIRE(std::abs(stored[i] - exact[i]) <= std::abs(exact[i]) / 256);
    }
  }
}

TEST_CASE("a weight that the number type cannot hold is refused by name, and no folder is left",
          "[train]") {
  MemoryFileSystem files;
  const SavedModel saved = save(files, [](Engine& engine) { set_first_weight(engine, 1e6F); });
  const FolderFrame half = frame_of(files, DType::kF16);
  CHECK_THROWS_AS(export_to(files, saved, half), ValidationError);
  CHECK_THROWS_WITH(export_to(files, saved, half),
                    Catch::Contains("1000000, which is too large for the number type of "
                                    "train.final_dtype; take fp32 or bf16"));
  CHECK_FALSE(files.exists("/final/model.safetensors"));
  CHECK_NOTHROW(export_to(files, saved, frame_of(files, DType::kBF16)));
}

TEST_CASE("a folder that is there is replaced, with what belongs to another tokenizer", "[train]") {
  MemoryFileSystem files;
  const SavedModel saved = save(files);
  put(files, "/final/tokenizer.json", "of another one");
  put(files, "/final/generation_config.json", "of another one");
  put(files, "/final/model.safetensors", "of another one");
  put(files, "/final/README.md", "written by hand");
  export_to(files, saved, frame_of(files, DType::kF32));
  CHECK_FALSE(files.exists("/final/tokenizer.json"));
  CHECK_FALSE(files.exists("/final/generation_config.json"));
  CHECK(files.read_text("/final/README.md", 100) == "written by hand");
  CHECK_NOTHROW(SafetensorsFile::open(files, "/final/model.safetensors"));
}

TEST_CASE("an export that fails anywhere leaves no weights that could be taken for whole ones",
          "[train]") {
  MemoryFileSystem start;
  const SavedModel saved = save(start);
  int64_t calls = 0;
  for (int64_t call = 0; call == 0 || call < calls; ++call) {
    MemoryFileSystem files;
    save(files);
    put(files, "/final/model.safetensors", "of an earlier run");
    FaultFileSystem faulty(files);
    if (call > 0) faulty.fail_call(call - 1, Fault::kDiskFull);
    CheckpointReader reader = CheckpointReader::open(faulty, "/run/checkpoints", "global_step3");
    const ModelExport what{"/final", frame_of(faulty, DType::kF32), saved.specs};
    if (call == 0) {
      write_model_folder(faulty, what, reader);
      calls = faulty.call_count();
      REQUIRE(calls > 3);
      continue;
    }
    CAPTURE(faulty.calls().size(), call);
    CHECK_THROWS_AS(write_model_folder(faulty, what, reader), IoError);
    if (!files.exists("/final/model.safetensors")) continue;
    // Either nothing was touched yet, or all was written and only its durability failed.
    const int64_t size = files.open("/final/model.safetensors")->size();
    if (size == 17) continue;
    CHECK_NOTHROW(SafetensorsFile::open(files, "/final/model.safetensors"));
  }
}

TEST_CASE("what training started from goes with the model", "[train]") {
  MemoryFileSystem files;
  const std::string config = R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
      "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 16, "vocab_size": 29,
      "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "somebody_s_key": 5})";
  put(files, "/source/config.json", config);
  put(files, "/source/generation_config.json", R"({"eos_token_id": 3})");
  put(files, "/source/tokenizer.json", "{}");
  const FolderFrame frame = folder_frame(files, small_model(), "/source", "/source", DType::kBF16);
  CHECK(frame.dtype == DType::kBF16);
  CHECK(frame.files.at("generation_config.json") == R"({"eos_token_id": 3})");
  CHECK(frame.files.at("tokenizer.json") == "{}");
  CHECK_THAT(frame.files.at("config.json"), Catch::Contains("somebody_s_key"));
  CHECK_THAT(frame.files.at("config.json"), Catch::Contains("bfloat16"));
  CHECK(frame.stored_names.empty());  // a plan needs no weights
}

TEST_CASE("a run from a class without a head makes the head by its seed, and writes both",
          "[train]") {
  MemoryFileSystem files;
  EngineOptions options = options_of({});
  BertConfig bert = tiny_like_bert<BertConfig>(1);
  bert.vocab_size = 29;
  bert.max_position_embeddings = 16;
  options.model = bert;
  options.seed = 7;
  std::string config = format_hf_config(options.model, DType::kF32);
  config.replace(config.find("BertForMaskedLM"), 15, "BertModel");
  put(files, "/m/config.json", config);
  test::run_ranks(1, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    Engine engine(options, workspace.resources(), std::nullopt);
    engine.initialize();
    Outcome drawn;
    std::mutex mutex;
    collect(engine, drawn, mutex);
    // A body of other numbers, without the words of its path.
    std::vector<SafetensorsTensor> tensors;
    std::vector<std::vector<float>> values;
    for (const ParamSpec& spec : specs_of(engine.store())) {
      if (!spec.name.starts_with("bert.")) continue;
      values.push_back(std::vector<float>(to_size(spec.shape.numel()), 0.5F));
      tensors.push_back({spec.name.substr(5), DType::kF32, spec.shape, {}});
    }
    for (size_t i = 0; i < values.size(); ++i) {
      tensors[i].data = std::as_bytes(std::span(values[i]));
    }
    write_safetensors(files, "/m/model.safetensors", tensors);
    JobPlan plan;
    plan.run_dir = "/run";
    Checkpointing checkpoints(engine, files, plan, {});
    CHECK(checkpoints.load("/m") == 0);
    Outcome loaded;
    collect(engine, loaded, mutex);
    for (const ParamSpec& spec : specs_of(engine.store())) {
      CAPTURE(spec.name);
      const std::string weight = spec.name + "/weight";
      const bool is_body = spec.name.starts_with("bert.");
      CHECK(loaded.state.at(weight) == (is_body
                                            ? std::vector<float>(to_size(spec.shape.numel()), 0.5F)
                                            : drawn.state.at(weight)));
    }
  });
  const FolderFrame frame = folder_frame(files, options.model, "/m", "byte", DType::kF32);
  CHECK(frame.stored_names.empty());  // names of the class with the head
  CHECK_THAT(frame.files.at("config.json"), Catch::Contains("\"BertForMaskedLM\""));
}

TEST_CASE("a folder that is missing, or of another model, is named before training", "[train]") {
  MemoryFileSystem files;
  CHECK_THROWS_AS(folder_frame(files, small_model(), "/gone", "byte", DType::kF32), InputMissing);
  CHECK_THROWS_WITH(folder_frame(files, small_model(), "/gone", "byte", DType::kF32),
                    Catch::Contains("/gone/config.json"));
  CHECK_THROWS_AS(folder_frame(files, small_model(), std::nullopt, "/gone", DType::kF32),
                  InputMissing);
  put(files, "/source/config.json", "no JSON");
  CHECK_THROWS_AS(folder_frame(files, small_model(), "/source", "byte", DType::kF32), DataError);
}

}  // namespace ds
