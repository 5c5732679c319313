#include "train/convert/universal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "checkpoint/tag.h"
#include "core/text/join_some.h"
#include "core/torch/torch_writer.h"
#include "core/values/index.h"
#include "model/hf/weights.h"
#include "train/model_folder.h"

namespace ds {
namespace {

using deepspeed::kWeightSlot;

// The release of DeepSpeed whose format this is, which its readers ask for.
constexpr const char* kVersion = "0.19.8";
// Stages 0 to 2 look for the first, stage 3 looks for the second.
constexpr std::array kModelFiles{"mp_rank_00_model_states.pt",
                                 "zero_pp_rank_0_mp_rank_00_model_states.pt"};
// More than the groups of parameters that an optimizer has: DeepSpeed goes on only with as many of
// its groups as there are here, and takes from each what it says.
constexpr size_t kGroups = 64;
constexpr std::array<std::string_view, 2> kSlots{"exp_avg", "exp_avg_sq"};

std::span<const std::byte> bytes_of(std::span<const float> values) { return std::as_bytes(values); }

class Writer {
 public:
  Writer(FileSystem& files, const std::string& folder, const ConversionSource& source)
      : files_(files),
        source_(source),
        steps_(source.about.step.value_or(0)),
        updates_(static_cast<float>(source.updates)),
        tensors_(export_list(source.specs, DType::kF32)),
        folder_(join_path(folder, default_tag(steps_))) {}

  void write() {
    files_.make_directories(join_path(folder_, "zero"));
    write_states();
    write_optimizer();
    for (const ExportTensor& tensor : tensors_) write_parameter(tensor);
    files_.sync_directory(join_path(folder_, "zero"));
    files_.sync_directory(folder_);
  }

 private:
  void write_states() {
    TorchItem::Dict shapes;
    for (const ExportTensor& entry : tensors_) {
      if (source_.frozen.contains(entry.tensor.name)) continue;
      shapes.emplace_back(entry.tensor.name, TorchItem::Size{extents_of(entry.tensor.shape)});
    }
    // The scheduler is called once for each update, and says which one was the last.
    const TorchItem::Dict scheduler{{"last_batch_iteration", source_.scheduler_steps - 1}};
    const TorchItem::Dict states{{"module", TorchItem::Dict{}},
                                 {"buffer_names", TorchItem::List{}},
                                 {"optimizer", {}},
                                 {"param_shapes", TorchItem::List{std::move(shapes)}},
                                 {"frozen_param_shapes", {}},
                                 {"shared_params", TorchItem::Dict{}},
                                 {"frozen_param_fragments", {}},
                                 {"lr_scheduler", scheduler},
                                 {"data_sampler", {}},
                                 {"random_ltd", {}},
                                 {"skipped_steps", source_.skipped},
                                 {"global_steps", steps_},
                                 {"global_samples", source_.samples},
                                 {"dp_world_size", 1},
                                 {"mp_world_size", 1},
                                 {"ds_config", TorchItem::Dict{}},
                                 {"ds_version", kVersion}};
    for (const char* name : kModelFiles) {
      write_torch_file(files_, join_path(folder_, name), states, {});
    }
  }

  // Stage 3 takes the step of its groups from here, the others take it from each parameter.
  void write_optimizer() {
    const TorchItem::Dict group = group_of_next_update();
    const TorchItem::Dict state{
        {"state", TorchItem::Dict{{0, TorchItem::Dict{{"step", TorchItem::Elements{}}}}}},
        {"param_groups", TorchItem::List{group}}};
    const TorchItem::Dict all{{"ds_version", kVersion},
                              {"partition_count", TorchItem::List{1}},
                              {"param_groups", TorchItem::List(kGroups, group)},
                              {"optimizer_state_dict", state}};
    write_torch_file(files_, join_path(folder_, "zero/optimizer_state.pt"), all,
                     [&](size_t) { return bytes_of(std::span(&updates_, 1)); });
  }

  // A scheduler of DeepSpeed's sets rates behind an update, so the next one has what is here.
  TorchItem::Dict group_of_next_update() const {
    TorchItem::Dict group{{"params", TorchItem::List{0}}};
    if (source_.rate) group.emplace_back("lr", *source_.rate);
    if (const auto& betas = source_.betas) {
      group.emplace_back("betas", TorchItem::List{(*betas)[0], (*betas)[1]});
    }
    return group;
  }

  void write_parameter(const ExportTensor& entry) {
    const std::string place = join_path(join_path(folder_, "zero"), entry.tensor.name);
    files_.make_directory(place);
    write_slot(entry, kWeightSlot, place);
    if (source_.frozen.contains(entry.tensor.name)) return files_.sync_directory(place);
    for (const std::string& slot : source_.slots) write_slot(entry, slot, place);
    write_torch_file(files_, join_path(place, "step.pt"), TorchItem::Elements{},
                     [&](size_t) { return bytes_of(std::span(&updates_, 1)); });
    files_.sync_directory(place);
  }

  void write_slot(const ExportTensor& entry, const std::string& slot, const std::string& place) {
    const std::vector<float> values = whole_tensor(
        entry, source_.specs,
        [&](size_t index, int64_t begin, Tensor& into) { source_.read(index, slot, begin, into); });
    const TorchItem::Dict root{
        {"cat_dim", 0},
        {"param", TorchItem::Elements{DType::kF32, extents_of(entry.tensor.shape)}}};
    write_torch_file(files_, join_path(place, slot + ".pt"), root,
                     [&](size_t) { return bytes_of(values); });
  }

  FileSystem& files_;
  const ConversionSource& source_;
  const int64_t steps_;
  const float updates_;
  const std::vector<ExportTensor> tensors_;
  const std::string folder_;
};

}  // namespace

void require_universal(const ConversionSource& source, DType dtype) {
  if (dtype != DType::kF32) {
    throw UsageError(
        fmt::format("--dtype {}: a universal checkpoint has fp32 weights", name_of(dtype)));
  }
  const std::string& from = source.about.from;
  constexpr const char* kWay = "`--to hf` writes its weights";
  if (source.slots.empty()) {
    throw Unsupported(fmt::format(
        "{}: has weights and no moments of an optimizer, which a universal checkpoint is made of; "
        "{}",
        from, kWay));
  }
  for (const std::string& slot : source.slots) {
    if (std::ranges::find(kSlots, slot) != kSlots.end()) continue;
    throw Unsupported(
        fmt::format("{}: its optimizer keeps {}, and universal checkpoints are written "
                    "of exp_avg and exp_avg_sq alone; {}",
                    from, slot, kWay));
  }
}

void write_universal(FileSystem& files, const std::string& folder, ConversionSource& source) {
  files.make_directories(folder);
  Writer(files, folder, source).write();
  const std::string tag = default_tag(source.about.step.value_or(0));
  files.write_text_atomically(join_path(folder, latest_file_name(CheckpointKind::kUniversal)), tag);
  source.about.notes.emplace_back(
      "DeepSpeed takes betas, weight decay and the loss scale from its own configuration");
  if (source.loss_scale) {
    source.about.notes.push_back(
        fmt::format("the loss scale stands at {}: \"fp16\": {{\"initial_scale_power\": {}}} begins "
                    "there",
                    *source.loss_scale, std::lround(std::log2(*source.loss_scale))));
  }
  if (!source.frozen.empty()) {
    const std::vector<std::string> frozen(source.frozen.begin(), source.frozen.end());
    constexpr size_t kMostNamed = 4;
    source.about.notes.push_back(
        fmt::format("DeepSpeed loads no parameters that are not trained from a universal "
                    "checkpoint ({}): its model has to begin with them, as with the folder that "
                    "`--to hf` writes",
                    join_some(frozen, kMostNamed)));
  }
  if (!source.rate) {
    source.about.notes.emplace_back(
        "the source does not say its rate: DeepSpeed makes its first step with the one that its "
        "configuration begins with");
  }
}

}  // namespace ds
