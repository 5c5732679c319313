// Fuzzes what readers make of DeepSpeed's files: those of a model and of an optimizer, both of them
// together, a stage of a pipeline with a layer, the file `latest`, and rules for names.
#include <memory>

#include "checkpoint/deepspeed/folder_files.h"
#include "checkpoint/deepspeed/model_states.h"
#include "checkpoint/deepspeed/optimizer_states.h"
#include "checkpoint/deepspeed/pipeline_table.h"
#include "checkpoint/deepspeed/saved_tensors.h"
#include "tests/fuzz/one_input.h"
#include "train/convert/name_rules.h"

namespace {

using namespace ds::deepspeed;

void open_both(std::span<const std::byte> bytes) {
  const size_t half = bytes.size() / 2;
  OpenFiles model, optimizer;
  model.push_back(
      std::make_unique<const ds::TorchFile>(ds::TorchFile::of_bytes("/m", bytes.first(half))));
  optimizer.push_back(
      std::make_unique<const ds::TorchFile>(ds::TorchFile::of_bytes("/o", bytes.subspan(half))));
  const SavedTable table = zero_table(model, optimizer);
  for (const auto& [name, tensor] : table.weights) {
    for (const SavedRun& run : tensor.runs) {
      std::vector<std::byte> element(static_cast<size_t>(tensor.dtype.size));
      run.file->copy(*run.tensor, run.first + run.numel - 1, element);
    }
  }
}

void open_pipeline(std::span<const std::byte> bytes) {
  const size_t half = bytes.size() / 2;
  const auto model = ds::TorchFile::of_bytes("/m", bytes.first(half));
  const auto layer = ds::TorchFile::of_bytes("/layer_01-model_states.pt", bytes.subspan(half));
  std::vector<StageTable> stages;
  stages.push_back({plain_table(model), &model});
  const std::vector<const ds::TorchFile*> layers{&layer};
  pipeline_table(std::move(stages), layers);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto bytes = ds::fuzz::bytes_of(data + 1, size - 1);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ds::fuzz::expect_refusal_or_success([&] {
    switch (data[0] % 6) {
      case 0:
        model_states_of(ds::TorchFile::of_bytes("/m", bytes));
        break;
      case 1:
        optimizer_states_of(ds::TorchFile::of_bytes("/o", bytes));
        break;
      case 2:
        open_both(bytes);
        break;
      case 3:
        tag_of("/latest", text);
        break;
      case 4:
        open_pipeline(bytes);
        break;
      default:
        ds::NameRules("/map", text).applied("transformer.h.0.attn.c_attn.weight");
    }
  });
  return 0;
}
