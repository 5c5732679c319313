#include "train/convert/source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "checkpoint/deepspeed/stored_slot.h"
#include "checkpoint/llmc/checkpoint.h"
#include "checkpoint/own_checkpoint.h"
#include "checkpoint/reader.h"
#include "checkpoint/tag.h"
#include "checkpoint/tag_list.h"
#include "config/families/hf_config.h"
#include "config/load.h"
#include "core/device/dispatch.h"
#include "core/files/deepspeed_folder.h"
#include "core/files/input_files.h"
#include "core/text/join_some.h"
#include "core/values/index.h"
#include "data/tokenizer/tokenizer.h"
#include "model/families/zoo.h"
#include "model/hf/adapter_weights.h"
#include "model/hf/narrowed_tensors.h"
#include "model/hf/renamed_tensors.h"
#include "model/hf/weights.h"
#include "optim/grouped_optimizer.h"
#include "train/adapter_folder.h"
#include "train/configured_model.h"
#include "train/convert/megatron.h"
#include "train/convert/name_rules.h"
#include "train/engine_pieces.h"
#include "train/frozen_of_tag.h"
#include "train/settings/rates.h"
#include "train/settings/resume_facts.h"
#include "train/settings/tensor_cuts.h"
#include "train/step/scaling_state.h"

namespace ds {
namespace {

using deepspeed::DeepSpeedFolder;
using deepspeed::kWeightSlot;

constexpr const char* kModelConfig = "config.json";
constexpr int64_t kLargestMap = int64_t{1} << 20;

// The folder whose config.json says what the weights are of.
std::string config_folder(FileSystem& files, const Conversion& what, const std::string& from) {
  if (what.config) {
    return what.config->ends_with("/config.json") ? parent_directory(*what.config) : *what.config;
  }
  for (const std::string& folder :
       {from, parent_directory(from), parent_directory(parent_directory(from))}) {
    if (files.exists(join_path(folder, kModelConfig))) return folder;
  }
  throw InputMissing(
      fmt::format("{}: there is no config.json in it or beside it, which says what "
                  "model the weights are of; give --config FOLDER",
                  from));
}

NameRules rules_of(FileSystem& files, const Conversion& what) {
  if (!what.name_map) return {};
  return {*what.name_map, files.read_text(*what.name_map, kLargestMap)};
}

void take_model(FileSystem& files, const Conversion& what, ConversionSource& source) {
  source.config = config_folder(files, what, source.about.from);
  source.model = read_hf_config(files, source.config);
  source.specs = specs_of_model(source.model, DType::kF32);
}

// Weights under names of their own, by slots.
using SlotWeights = std::map<std::string, HfWeights>;

HfWeights mapped(WeightFolder stored, const NameRules& rules, const std::string& name,
                 std::span<const ParamSpec> specs) {
  std::map<std::string, std::string> names = renamed(stored.names(), rules);
  return {WeightFolder(std::make_shared<const RenamedTensors>(std::move(stored), std::move(names))),
          name, specs};
}

// The parameters that an optimizer keeps something of, and where each of all is among them.
struct TrainedSpecs {
  std::vector<ParamSpec> specs;
  std::vector<size_t> places;  // by index of all; of a frozen one without meaning
};

TrainedSpecs trained_specs(const ConversionSource& source) {
  std::set<const ParamSpec*> frozen;
  for (const ExportTensor& entry : export_list(source.specs, DType::kF32)) {
    if (source.frozen.contains(entry.tensor.name)) {
      frozen.insert(entry.parts.begin(), entry.parts.end());
    }
  }
  TrainedSpecs trained;
  for (const ParamSpec& spec : source.specs) {
    trained.places.push_back(trained.specs.size());
    if (!frozen.contains(&spec)) trained.specs.push_back(spec);
  }
  return trained;
}

// Reads the weights, and these slots of an optimizer, out of what `stored` opens for each.
void read_slots(ConversionSource& source, const NameRules& rules,
                std::span<const std::string> slots,
                const std::function<WeightFolder(const std::string& slot)>& stored) {
  const auto weights = std::make_shared<SlotWeights>();
  const std::string& from = source.about.from;
  WeightFolder of_weights = stored(kWeightSlot);
  for (const std::string& rule : rules.idle(unwrapped(of_weights.names()))) {
    source.about.notes.push_back(fmt::format("{}: the rule applies to no tensor", rule));
  }
  weights->emplace(kWeightSlot, mapped(std::move(of_weights), rules, from, source.specs));
  const TrainedSpecs trained = trained_specs(source);
  for (const std::string& slot : slots) {
    weights->emplace(slot,
                     mapped(stored(slot), rules, fmt::format("{}, {}", from, slot), trained.specs));
  }
  if (const std::vector<std::string>& left_out = weights->at(kWeightSlot).left_out();
      !left_out.empty()) {
    constexpr size_t kMostNamed = 8;
    source.about.notes.push_back(fmt::format("{} has no place for {}, which are left out",
                                             hf_model_class(source.model),
                                             join_some(left_out, kMostNamed)));
  }
  source.read = [weights, places = trained.places](size_t index, const std::string& slot,
                                                   int64_t begin, Tensor& into) {
    weights->at(slot).read(slot == kWeightSlot ? index : places.at(index), begin, into);
  };
}

// The stored tensors of the model that were not trained. `names`: those of the files by those that
// rules give them.
std::set<std::string> frozen_tensors(const DeepSpeedFolder& folder,
                                     std::span<const ParamSpec> specs,
                                     const std::map<std::string, std::string>& names) {
  std::set<std::string> in_files, known, frozen;
  for (const deepspeed::SavedParameter& parameter : folder.parameters()) {
    if (parameter.kind == deepspeed::SavedParameter::Kind::kFrozen) in_files.insert(parameter.name);
  }
  for (const auto& [name, stored] : names) known.insert(name);
  for (const ExportTensor& entry : export_list(specs, DType::kF32)) {
    const std::string& name = entry.tensor.name;
    const auto found = names.find(stored_name_of(name, known));
    if (found != names.end() && in_files.contains(found->second)) frozen.insert(name);
  }
  return frozen;
}

// Buffers are no parameters.
std::vector<std::string> stored_names(const DeepSpeedFolder& folder) {
  std::vector<std::string> names;
  for (const deepspeed::SavedParameter& parameter : folder.parameters()) {
    if (parameter.kind != deepspeed::SavedParameter::Kind::kBuffer) names.push_back(parameter.name);
  }
  return names;
}

ConversionSource deepspeed_source(FileSystem& files, const Conversion& what) {
  const auto folder =
      std::make_shared<DeepSpeedFolder>(DeepSpeedFolder::open(files, what.source, what.tag));
  const deepspeed::Progress& progress = folder->progress();
  ConversionSource source{.about = {.from = folder->directory(),
                                    .step = progress.steps,
                                    .by = "DeepSpeed " + progress.version},
                          .skipped = progress.skipped,
                          .updates = progress.updates.value_or(progress.steps - progress.skipped),
                          .samples = progress.samples,
                          .rate = progress.rate};
  source.scheduler_steps = progress.scheduler_steps.value_or(source.updates);
  take_model(files, what, source);
  if (what.target == ConversionTarget::kUniversal) source.slots = folder->slots();
  if (progress.scaler) source.loss_scale = progress.scaler->scale;
  const NameRules rules = rules_of(files, what);
  const std::map<std::string, std::string> names = renamed(stored_names(*folder), rules);
  join_ranks(*folder, source.model, names);
  source.frozen = frozen_tensors(*folder, source.specs, names);
  // With rules, names are those of the files, and whoever wrote them says what is what.
  const bool is_megatron = !what.name_map && has_names_of_megatron(stored_names(*folder));
  if (is_megatron && !folder->checkpoint_version()) {
    source.about.notes.emplace_back(
        "its files have no checkpoint_version: rows of query_key_value are taken as those of all "
        "queries, then all keys, then all values, as Megatron-LM takes them");
  }
  read_slots(source, rules, source.slots, [&](const std::string& slot) {
    WeightFolder stored(std::make_shared<const NarrowedTensors>(
        std::make_shared<const deepspeed::StoredSlot>(folder, slot)));
    if (slot == kWeightSlot) {
      const std::vector<std::string> notes = stored.notes();
      source.about.notes.insert(source.about.notes.end(), notes.begin(), notes.end());
    }
    if (!is_megatron) return stored;
    return from_megatron(std::move(stored), source.model, source.specs,
                         folder->checkpoint_version().value_or(0));
  });
  return source;
}

ConversionSource folder_source(FileSystem& files, const Conversion& what) {
  const WeightFolder stored = WeightFolder::open(files, what.source);
  ConversionSource source{
      .about = {.from = what.source, .by = "its writer", .notes = stored.notes()}};
  take_model(files, what, source);
  read_slots(source, rules_of(files, what), {}, [&](const std::string&) { return stored; });
  return source;
}

// The tag of that name, or else that which a run would go on from.
std::string tag_of(FileSystem& files, const Conversion& what, const std::string& root,
                   std::vector<std::string>& notes) {
  if (what.tag) {
    check_tag(*what.tag);
    return *what.tag;
  }
  const FoundTag found = find_newest_valid(files, root, Depth::kIndexes);
  if (!found.tag) {
    throw InputMissing(
        found.rejected.empty()
            ? fmt::format("{}: no checkpoint has been saved there", root)
            : fmt::format("{}: no checkpoint can be read: {}", root, found.rejected.front().why));
  }
  notes = passed_over(found);
  if (std::string note = set_back(found, root); !note.empty()) notes.push_back(std::move(note));
  return found.tag->tag;
}

// Moments may be stored in a shorter type than fp32.
void read_piece(CheckpointReader& reader, const std::string& name, const ParamSpec& spec,
                int64_t begin, Tensor& into) {
  const auto info = reader.info(name);
  if (info.shape != spec.logical_shape()) {
    throw Unsupported(
        fmt::format("{} has the shape {}, and {} is expected: what this optimizer "
                    "keeps is not one number for each of a weight",
                    name, info.shape.to_string(), spec.logical_shape().to_string()));
  }
  const Region region = Region::flat(begin, begin + into.numel());
  if (info.dtype == into.dtype()) return reader.get(name, region, into);
  std::vector<std::byte> stored(to_size(into.numel()) * size_of(info.dtype));
  Tensor narrow_values = Tensor::borrow(stored.data(), {into.numel()}, info.dtype);
  reader.get(name, region, narrow_values);
  on_float(info.dtype, [&]<class From>() {
    const From* from = narrow_values.data<From>();
    std::transform(from, from + into.numel(), into.data<float>(),
                   [](From value) { return static_cast<float>(value); });
  });
}

// llm.c has GPT-2 alone, whose sizes its files say, and trains without dropout.
ModelConfig model_of(const llmc::Checkpoint& checkpoint) {
  const llmc::ModelHeader& header = checkpoint.header();
  return parse_hf_config(
      fmt::format(R"({{"model_type": "gpt2", "n_layer": {}, "n_head": {}, "n_embd": {}, )"
                  R"("n_positions": {}, "vocab_size": {}, "resid_pdrop": 0.0, )"
                  R"("embd_pdrop": 0.0, "attn_pdrop": 0.0}})",
                  header.layers, header.heads, header.width, header.positions, header.vocabulary),
      checkpoint.path());
}

// Names a config.json that is of another model than the weights, but for its dropout.
void require_same_model(const std::string& own, const ConversionSource& source,
                        const std::string& path) {
  FactChanges changes;
  compare_models(own, format_hf_config(source.model, DType::kF32), changes);
  if (changes.model.empty()) return;
  throw DataError(fmt::format("{}: it is of another model than {}, of which {}", source.config,
                              path, fmt::join(changes.model, ", ")));
}

ConversionSource llmc_source(FileSystem& files, const Conversion& what) {
  if (what.tag) {
    throw UsageError(fmt::format("--tag {}: {} is one file", *what.tag, what.source));
  }
  const auto checkpoint = llmc::Checkpoint::open(files, what.source);
  ConversionSource source{.about = {.from = what.source, .step = checkpoint->step(), .by = "llm.c"},
                          .model = model_of(*checkpoint)};
  source.updates = source.scheduler_steps = checkpoint->step().value_or(0);
  if (what.config) {
    const std::string own = format_hf_config(source.model, DType::kF32);
    take_model(files, what, source);
    require_same_model(own, source, what.source);
  } else {
    source.specs = specs_of_model(source.model, DType::kF32);
  }
  if (what.target == ConversionTarget::kUniversal) source.slots = checkpoint->slots();
  read_slots(source, rules_of(files, what), source.slots, [&](const std::string& slot) {
    return WeightFolder(llmc::stored_slot(checkpoint, slot));
  });
  return source;
}

// Whether parameters have rates of their own.
bool has_several_rates(const OptimizerConfig& optimizer) {
  return (optimizer.type && is_mup(*optimizer.type)) ||
         std::ranges::any_of(optimizer.param_groups,
                             [](const ParamGroupConfig& group) { return group.lr.has_value(); });
}

// A run that was as long as some passes over its data may have a schedule whose length is not known
// here.
void take_rates(const std::string& text, ConversionSource& source) {
  try {
    const Config config = parse_config(text);
    const StepSettings next = settings_of_update(config, source.updates + 1);
    if (!has_several_rates(config.optimizer)) source.rate = next.lr;
    source.betas = next.betas;
  } catch (const ConfigError&) {  // the destination has no rate, and a note says so
  }
}

// Adapters leave it what it was; a run has nothing to export yet.
std::optional<std::string> folder_of_model(const FileSystem& files, const ModelSection& model) {
  const bool is_here = model.folder && files.exists(join_path(*model.folder, kModelConfig));
  return is_here ? model.folder : std::nullopt;
}

ConversionSource own_source(FileSystem& files, const Conversion& what, const OwnCheckpoint& found) {
  if (what.name_map) {
    throw UsageError(fmt::format("--map {}: {} is of dslaunch, and has the names of its model",
                                 *what.name_map, what.source));
  }
  const bool is_tag = found.kind == OwnCheckpoint::Kind::kTag;
  if (is_tag && what.tag) {
    throw UsageError(fmt::format("--tag {}: {} is one tag; name the folder that it lies in",
                                 *what.tag, what.source));
  }
  std::vector<std::string> notes;
  const std::string directory =
      is_tag ? found.path : join_path(found.root, tag_of(files, what, found.root, notes));
  const auto reader =
      std::make_shared<CheckpointReader>(CheckpointReader::open_directory(files, directory));
  const RunFacts facts = parse_facts(reader->state(kFactsState));
  ConversionSource source{.about = {.from = directory,
                                    .step = reader->manifest().step,
                                    .by = "dslaunch",
                                    .notes = std::move(notes)},
                          .model = parse_hf_config(facts.model, directory)};
  const Config config = parse_config(facts.config);
  if (config.lora) add_adapters(*config.lora, files, source.model);
  source.samples = reader->manifest().step * facts.global_batch;
  // What a run has exported has its tokenizer and the ids of special tokens.
  Conversion described = what;
  const std::string exported = join_path(parent_directory(found.root), "final");
  if (!what.config && files.exists(join_path(exported, kModelConfig))) described.config = exported;
  if (!described.config && config.lora) described.config = folder_of_model(files, config.model);
  // It is compared with the model that the checkpoint is of when it is written.
  if (described.config) source.config = config_folder(files, described, directory);
  source.specs = specs_of_model(source.model, DType::kF32);
  if (reader->has_state(kLossScaleState)) {
    source.skipped = parse_scaling_state(reader->state(kLossScaleState)).skipped;
  }
  source.updates = source.scheduler_steps = source.about.step.value_or(0) - source.skipped;
  take_rates(facts.config, source);
  std::set<std::string> slots;  // of any parameter: matrices may have others than tables
  for (const std::string& name : reader->names()) {
    const std::string slot = name.substr(name.rfind('/') + 1);
    if (slot != kMasterSlot) slots.insert(slot);
  }
  source.slots.assign(slots.begin(), slots.end());
  for (const ExportTensor& entry : export_list(source.specs, DType::kF32)) {
    const bool trained = std::ranges::any_of(
        entry.parts, [&](const ParamSpec* part) { return has_state(*reader, part->name, slots); });
    if (!trained) source.frozen.insert(entry.tensor.name);
  }
  const auto frozen = std::make_shared<const FrozenOfTag>(
      files, *reader, source.model,
      FrozenOfTag::Place{.tag = directory, .folder = config.model.folder});
  source.read = [reader, frozen, specs = source.specs](size_t index, const std::string& slot,
                                                       int64_t begin, Tensor& into) {
    const ParamSpec& spec = nth(specs, index);
    if (slot == kWeightSlot && frozen->has(spec.name)) return frozen->read(spec.name, begin, into);
    read_piece(*reader, spec.name + "/" + (slot == kWeightSlot ? kMasterSlot : slot), spec, begin,
               into);
  };
  return source;
}

// Options that are about other sources.
void refuse_other_options(const Conversion& what) {
  for (const auto& [name, value] :
       {std::pair{"--tag", &what.tag}, std::pair{"--map", &what.name_map},
        std::pair{"--config", &what.config}}) {
    if (!*value) continue;
    throw UsageError(fmt::format(
        "{} {}: {} is a folder of adapters, and --base FOLDER names the model that they belong to",
        name, **value, what.source));
  }
}

// Training may have changed the tokenizer, or the chat template with it.
std::string tokenizer_of(FileSystem& files, const AdapterFolder& adapters) {
  for (const std::string& place : {adapters.folder, adapters.base}) {
    if (!tokenizer_files(files, place).empty()) return place;
  }
  return "";
}

ConversionSource adapter_source(FileSystem& files, const Conversion& what) {
  refuse_other_options(what);
  const AdapterFolder found = open_adapter_folder(files, what.source, what.base);
  ConversionSource source{.about = {.from = what.source, .by = "its writer"},
                          .model = found.model,
                          .config = found.base,
                          .tokenizer = tokenizer_of(files, found),
                          .specs = specs_of_model(found.model, DType::kF32)};
  const auto weights = std::make_shared<AdaptedWeights>(files, found.base, source.specs,
                                                        AbsentModules(), what.source);
  source.read = [weights](size_t index, const std::string&, int64_t begin, Tensor& into) {
    weights->read(index, begin, into);
  };
  return source;
}

[[noreturn]] void refuse_without_adapters(const FileSystem& files, const std::string& source) {
  if (!files.exists(source)) {
    throw InputMissing(fmt::format("{}: there is no such file or folder", source));
  }
  throw UsageError(
      fmt::format("{}: it has no adapters to merge: it is neither a folder with {} nor a run of "
                  "dslaunch with a "
                  "section lora",
                  source, adapter_names::kConfig));
}

ConversionSource open_unmerged(FileSystem& files, const Conversion& what) {
  const OwnCheckpoint own = own_checkpoint(files, what.source);
  const bool is_own = own.kind != OwnCheckpoint::Kind::kNone;
  const bool wants_adapters = what.wanted == WantedSource::kAdapters;
  if (!is_own && are_meant(files, what.source, wants_adapters || what.base)) {
    return adapter_source(files, what);
  }
  if (what.base) refuse_base(*what.base, what.source);
  if (is_own) return own_source(files, what, own);
  if (wants_adapters) refuse_without_adapters(files, what.source);
  if (llmc::is_model_file(files, what.source)) return llmc_source(files, what);
  if (what.tag || is_deepspeed_folder(files, what.source)) return deepspeed_source(files, what);
  return folder_source(files, what);
}

}  // namespace

ConversionSource open_source(FileSystem& files, const Conversion& what) {
  ConversionSource source = open_unmerged(files, what);
  if (source.model.adapters && what.target == ConversionTarget::kUniversal) {
    throw Unsupported(
        fmt::format("{}: it has adapters, and DeepSpeed has no names for their state; --to hf "
                    "merges them into the weights",
                    what.source));
  }
  if (!source.model.adapters && what.wanted == WantedSource::kAdapters) {
    refuse_without_adapters(files, what.source);
  }
  return source;
}

}  // namespace ds
