#include "train/model_folder.h"

#include <algorithm>
#include <cmath>

#include "config/families/hf_config.h"
#include "config/sections/adapters/adapter_file.h"
#include "core/device/dispatch.h"
#include "core/files/input_files.h"
#include "core/status/failpoint.h"
#include "core/torch/torch_writer.h"
#include "core/values/index.h"
#include "data/tokenizer/tokenizer.h"
#include "model/hf/adapter_weights.h"
#include "model/hf/weights.h"
#include "train/settings/adapter_fit.h"

namespace ds {
namespace {

// The files that a folder may have its weights in.
struct WeightNames {
  const char *safetensors, *torch;
};
constexpr WeightNames kModelNames{"model.safetensors", "pytorch_model.bin"};
constexpr WeightNames kAdapterNames{adapter_names::kWeights, adapter_names::kTorchWeights};
constexpr const char* kConfig = "config.json";
constexpr const char* kGeneration = "generation_config.json";
constexpr int64_t kLargestFile = int64_t{256} << 20;

// The id of the token in a role, where the tokenizer has one for it.
std::optional<int64_t> id_of_role(FileSystem& files, const Tokenizer& tokenizer,
                                  const std::string& name, const std::string& role) {
  const std::optional<std::string> token = token_of_role(files, name, role);
  if (!token) return std::nullopt;
  const std::vector<int32_t> ids = tokenizer.encode(*token);
  return ids.size() == 1 ? std::optional<int64_t>(ids[0]) : std::nullopt;
}

HfTokenIds ids_of(FileSystem& files, const std::string& tokenizer) {
  if (tokenizer == "byte") return {};
  const std::unique_ptr<Tokenizer> opened = make_tokenizer(files, tokenizer);
  return {.bos = id_of_role(files, *opened, tokenizer, "bos_token"),
          .eos = id_of_role(files, *opened, tokenizer, "eos_token"),
          .pad = id_of_role(files, *opened, tokenizer, "pad_token")};
}

// What an earlier export has that this one lacks would belong to another tokenizer.
void remove_others(FileSystem& files, const ModelExport& what) {
  std::map<std::string, std::string> there = tokenizer_files(files, what.folder);
  there.emplace(kGeneration, join_path(what.folder, kGeneration));
  for (const auto& [name, path] : there) {
    if (!what.frame.files.contains(name) && files.exists(path)) files.remove(path);
  }
}

void write_frame(FileSystem& files, const ModelExport& what) {
  remove_others(files, what);
  for (const auto& [name, content] : what.frame.files) {
    const std::string path = join_path(what.folder, name);
    files.make_directories(parent_directory(path));
    files.write_text_atomically(path, content);
  }
}

// Nobody is given a model that computes nothing.
void require_finite(const std::vector<float>& values, const std::string& name) {
  const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (bad == values.end()) return;
  throw ValidationError(
      fmt::format("export: {} has an element {}, which is not finite", name, *bad));
}

// Rounds to the nearest; beyond the largest number there is no nearest.
template <class To>
void round_into(std::span<To> out, const std::vector<float>& values, const std::string& name,
                const std::string& said_by) {
  for (size_t i = 0; i < values.size(); ++i) {
    out[i] = static_cast<To>(values[i]);
    if (!std::isfinite(static_cast<float>(out[i]))) {
      throw ValidationError(
          fmt::format("export: {} has an element {}, which is too large for the number type of {}; "
                      "take fp32 or bf16",
                      name, values[i], said_by));
    }
  }
}

// The tensors of a folder, one after the other, as the bytes that it has of them.
class ExportedBytes {
 public:
  ExportedBytes(const ModelExport& what, const ReadParameter& read) : what_(what), read_(read) {}

  // They stay until the next call.
  std::span<const std::byte> of(const ExportTensor& entry) {
    values_ = whole_tensor(entry, what_.specs, read_);
    require_finite(values_, entry.tensor.name);
    if (what_.frame.dtype == DType::kF32) return std::as_bytes(std::span(values_));
    rounded_.resize(values_.size() * size_of(what_.frame.dtype));
    on_float(what_.frame.dtype, [&]<class To>() {
      const std::span out(reinterpret_cast<To*>(rounded_.data()), values_.size());
      round_into<To>(out, values_, entry.tensor.name, what_.frame.dtype_said_by);
    });
    return rounded_;
  }

 private:
  const ModelExport& what_;
  const ReadParameter& read_;
  std::vector<float> values_;
  std::vector<std::byte> rounded_;
};

void write_safetensors(FileSystem& files, const std::string& path,
                       const std::vector<ExportTensor>& tensors, ExportedBytes& bytes) {
  std::vector<SafetensorsTensor> list;
  for (const ExportTensor& entry : tensors) list.push_back(entry.tensor);
  SafetensorsWriter writer(files, path, list);
  for (const ExportTensor& entry : tensors) {
    const std::span<const std::byte> data = bytes.of(entry);
    DS_FAILPOINT("export.tensor");
    writer.write(entry.tensor.name, data);
  }
  DS_FAILPOINT("export.before_finish");
  writer.finish();
}

// What torch.save writes of a state_dict().
void write_pytorch_model(FileSystem& files, const std::string& path,
                         const std::vector<ExportTensor>& tensors, ExportedBytes& bytes) {
  TorchItem::Dict state;
  for (const ExportTensor& entry : tensors) {
    const SafetensorsTensor& tensor = entry.tensor;
    state.emplace_back(tensor.name, TorchItem::Elements{tensor.dtype, extents_of(tensor.shape)});
  }
  write_torch_file(files, path, state, [&](size_t index) { return bytes.of(tensors[index]); });
}

}  // namespace

std::vector<float> whole_tensor(const ExportTensor& entry, std::span<const ParamSpec> specs,
                                const ReadParameter& read) {
  std::vector<float> whole(to_size(entry.tensor.shape.numel()));
  std::vector<float> part;
  for (const ParamSpec* const spec : entry.parts) {
    std::vector<float>& values = entry.parts.size() == 1 ? whole : part;
    if (entry.parts.size() > 1) values.resize(to_size(spec->logical_shape().numel()));
    Tensor into = Tensor::borrow(values.data(), {narrow<int64_t>(values.size())}, DType::kF32);
    read(to_size(spec - specs.data()), entry.begin, into);
    if (entry.parts.size() > 1) place_rows(*spec, values, whole);
  }
  return whole;
}

namespace {

// The class of a task, as peft names those that it knows.
std::string peft_task(const ModelConfig& model) {
  if (model.classifier) {
    return model.classifier->task == ClassifierTask::kTokens ? "TOKEN_CLS" : "SEQ_CLS";
  }
  return predicts_next(model) ? "CAUSAL_LM" : "";
}

// Makes it the frame of a folder of adapters.
void add_adapters(const ModelConfig& model, const std::optional<std::string>& source,
                  FolderFrame& frame) {
  frame.has_adapters_alone = true;
  frame.stored_names.clear();
  frame.files[adapter_names::kModel] = std::move(frame.files[kConfig]);
  frame.files.erase(kConfig);
  frame.files.erase(kGeneration);
  frame.files[adapter_names::kConfig] =
      format_adapter_file({.spec = *model.adapters,
                           .modules = target_names(model),
                           .base = source.value_or(""),
                           .task = peft_task(model),
                           .inputs_first = transformer_spec(model).inputs_first});
}

}  // namespace

FolderFrame folder_frame(FileSystem& files, const ModelConfig& model,
                         const std::optional<std::string>& source, const std::string& tokenizer,
                         DType dtype) {
  InputFiles inputs(files);
  FolderFrame frame;
  frame.dtype = dtype;
  if (source) {
    const std::string config = join_path(*source, kConfig);
    frame.files[kConfig] =
        keep_hf_config(inputs.read_text(config, kLargestFile), config, model, dtype);
    const std::string generation = join_path(*source, kGeneration);
    if (inputs.exists(generation))
      frame.files[kGeneration] = inputs.read_text(generation, kLargestFile);
    // A plan, and a run that goes on from a checkpoint, need no weights. What has a new head by now
    // has the names of its class.
    const bool keeps_names =
        headless_class(inputs, *source).empty() && absent_modules(model).empty();
    if (keeps_names && has_hf_weights(inputs, *source)) {
      const std::vector<std::string> names = WeightFolder::open(inputs, *source).names();
      frame.stored_names.insert(names.begin(), names.end());
    }
  } else {
    frame.files[kConfig] = format_hf_config(model, dtype, ids_of(inputs, tokenizer));
  }
  if (model.adapters) add_adapters(model, source, frame);
  const std::map<std::string, std::string> parts = tokenizer_files(inputs, tokenizer);
  if (parts.empty() && tokenizer != "byte" && tokenizer != source)
    inputs.open(tokenizer);  // says what is wrong with it
  for (const auto& [name, path] : parts) frame.files[name] = inputs.read_text(path, kLargestFile);
  return frame;
}

void write_model_folder(FileSystem& files, const ModelExport& what, CheckpointReader& reader) {
  write_model_folder(files, what, [&](size_t index, int64_t begin, Tensor& into) {
    const ParamSpec& spec = what.specs[index];
    reader.get(spec.name + "/weight", Region::flat(begin, begin + into.numel()), into);
  });
}

namespace {

// What the folder holds, under the names that it has there.
std::vector<ExportTensor> tensors_of(const ModelExport& what) {
  std::vector<ExportTensor> tensors = export_list(what.specs, what.frame.dtype);
  if (!what.frame.has_adapters_alone) {
    const std::set<std::string>& kept = what.frame.stored_names;
    for (ExportTensor& entry : tensors) {
      if (kept.empty()) continue;
      const std::string stored = stored_name_of(entry.tensor.name, kept);
      // What is read stacked is written in pieces.
      const bool is_piece = !entry.parts.front()->pieces.empty();
      if (!is_piece || kept.contains(stored)) entry.tensor.name = stored;
    }
    return tensors;
  }
  std::erase_if(tensors, [](const ExportTensor& entry) {
    return std::ranges::none_of(entry.parts, [](const ParamSpec* spec) { return spec->trains; });
  });
  std::set<std::string_view> adapted;  // modules
  for (const ParamSpec& spec : what.specs) {
    if (is_adapter_parameter(spec.name)) adapted.insert(module_of_parameter(spec.name));
  }
  for (ExportTensor& entry : tensors) {
    std::string& name = entry.tensor.name;
    name = adapter_file_name(name, adapted.contains(module_of_parameter(name)));
  }
  return tensors;
}

}  // namespace

void write_model_folder(FileSystem& files, const ModelExport& what, const ReadParameter& read) {
  files.make_directories(what.folder);
  const std::vector<ExportTensor> tensors = tensors_of(what);
  const WeightNames& names = what.frame.has_adapters_alone ? kAdapterNames : kModelNames;
  for (const char* const name : {names.safetensors, names.torch}) {  // one with weights is whole
    if (files.exists(join_path(what.folder, name))) files.remove(join_path(what.folder, name));
  }
  write_frame(files, what);
  ExportedBytes bytes(what, read);
  switch (what.frame.format) {
    case WeightFormat::kSafetensors:
      write_safetensors(files, join_path(what.folder, names.safetensors), tensors, bytes);
      break;
    case WeightFormat::kTorch:
      write_pytorch_model(files, join_path(what.folder, names.torch), tensors, bytes);
      break;
  }
  DS_FAILPOINT("export.weights_written");
}

}  // namespace ds
