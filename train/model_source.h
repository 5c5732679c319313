// What `generate`, `eval` and `tokenize` are given: a Hugging Face folder, a run directory or a
// checkpoint tag; and the model of it, loaded whole into this process.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/files/file.h"
#include "core/memory/resource.h"
#include "core/stream.h"
#include "core/thread_pool.h"
#include "model/kv_cache.h"
#include "model/language_model.h"
#include "model/plain_store.h"

namespace ds {

struct ModelSource {
  std::string place;  // the folder or tag that was chosen
  ModelConfig model;
  std::string tokenizer;              // "byte", a tokenizer.json, or a folder
  std::optional<std::string> folder;  // the Hugging Face folder, if it is one
  DType stored = DType::kF32;         // bf16 where all weights are; else fp32, which holds any
  // Fills every weight of the store, converted to its type.
  std::function<void(PlainStore&, Stream&)> load;
};

// Where training goes on, of a run directory its final model. InputMissing if there is nothing of
// the kind.
ModelSource open_model_source(FileSystem& files, const std::string& given);

// In the words of make_tokenizer: "byte" (or "bytes"), a tokenizer.json, a folder with one, a run
// directory or a tag.
std::string tokenizer_place(FileSystem& files, const std::string& given);

// Confined to one thread, but for the threads it makes.
class LoadedModel {
 public:
  // Nothing is drawn at random: every weight is read. `dtype` is that of weights and activations.
  LoadedModel(const ModelSource& source, DType dtype, int threads);

  LanguageModel& model() { return *model_; }
  Stream& stream() { return stream_; }
  const ModelDimensions& dims() const { return dims_; }
  Context context(KvCache* cache = nullptr);

 private:
  HostMemory memory_;
  ThreadPool pool_;
  Stream stream_;
  PlainStore store_;
  std::unique_ptr<LanguageModel> model_;
  ModelDimensions dims_;
};

}  // namespace ds
