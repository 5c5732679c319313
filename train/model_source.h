// What `generate`, `eval` and `tokenize` are given: a Hugging Face folder, a run directory or a
// checkpoint tag; and the model of it, or some layers, loaded into this process.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "config/sections/training.h"
#include "core/device/stream.h"
#include "core/files/file.h"
#include "core/memory/resource.h"
#include "core/tasks/thread_pool.h"
#include "model/modules/language_model.h"
#include "model/modules/stage.h"
#include "model/pass/kv_cache.h"
#include "model/stores/plain_store.h"
#include "train/settings/model_device.h"

namespace ds {

struct ModelSource {
  std::string place;  // the folder or tag that was chosen
  ModelConfig model;
  std::string tokenizer;              // "byte", a file of a tokenizer, or a folder
  std::optional<std::string> folder;  // the Hugging Face folder, if it is one
  std::optional<DataSection> data{};  // of the run that it is of; none: nothing says
  DType stored = DType::kF32;         // bf16 where all weights are; else fp32, which holds any
  // Fills every weight of the store, which may be those of some layers, converted to its type.
  std::function<void(PlainStore&, Stream&)> load;
};

// Whether a head is asked for, which a folder of a class without one does not have.
enum class HeadUse : uint8_t { kNeeded, kNone };

// What a command line says of a model.
struct GivenModel {
  std::string place;  // a tag, a Hugging Face folder, a run directory or a folder of adapters
  std::optional<std::string> base{};  // of adapters: the folder of the model; none: what they name
};

// Opens a tag, a Hugging Face folder or a run directory, which has its final model or the tag that
// training goes on from; or adapters, with the model that they belong to. Throws InputMissing if
// there is nothing of the kind, UsageError for a base of what is no adapters. Without use for a
// head load() leaves the weights of one as they are where there are none; else it throws
// Unsupported.
ModelSource open_model_source(FileSystem& files, const GivenModel& given,
                              HeadUse use = HeadUse::kNeeded);

// The same for a place on meta: nothing is read, and load() takes the memory that reading takes.
ModelSource rehearsal_of(const ModelSource& source);

// In the words of make_tokenizer: "byte" (or "bytes"), its file, a folder with one, a run
// directory or a tag.
std::string tokenizer_place(FileSystem& files, const std::string& given);

// LoadedWeights has the weights of a source, and what computes with them. Nothing is drawn at
// random: every weight is read.
struct LoadedWeights {
  explicit LoadedWeights(const ModelPlace& place);
  // Those of all parameters that the store has by now.
  void load(const ModelSource& source);

  HostMemory heap;
  ThreadPool pool;
  Stream stream;
  PlainStore store;
};

// The whole model. Confined to one thread, but for the threads it makes; so is LoadedStage.
class LoadedModel {
 public:
  // `dtype` is that of weights and activations.
  LoadedModel(const ModelSource& source, DType dtype, const ModelPlace& place);

  LanguageModel& model() { return *model_; }
  Stream& stream() { return weights_.stream; }
  const ModelDimensions& dims() const { return dims_; }
  Context context() { return {.stream = weights_.stream, .store = &weights_.store}; }

 private:
  LoadedWeights weights_;
  std::unique_ptr<LanguageModel> model_;
  ModelDimensions dims_;
};

// Some layers of it, and no others' weights.
class LoadedStage {
 public:
  LoadedStage(const ModelSource& source, LayerRange layers, DType dtype, const ModelPlace& place);

  const Stage& stage() const { return *stage_; }
  LayerRange layers() const { return layers_; }
  Stream& stream() { return weights_.stream; }
  Context context(KvCache* cache) {
    return {.stream = weights_.stream, .store = &weights_.store, .cache = cache};
  }

 private:
  LoadedWeights weights_;
  LayerRange layers_;
  std::unique_ptr<const Stage> stage_;
};

}  // namespace ds
