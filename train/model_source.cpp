#include "train/model_source.h"

#include <algorithm>
#include <filesystem>

#include "checkpoint/commit.h"
#include "checkpoint/own_checkpoint.h"
#include "checkpoint/reader.h"
#include "config/load.h"
#include "core/device/host_copy.h"
#include "core/files/deepspeed_folder.h"
#include "data/tokenizer/forms/forms.h"
#include "data/tokenizer/tokenizer.h"
#include "kernels/elementwise/elementwise.h"
#include "model/families/zoo.h"
#include "model/hf/adapter_weights.h"
#include "model/hf/weights.h"
#include "train/adapter_folder.h"
#include "train/assemble.h"
#include "train/frozen_of_tag.h"
#include "train/settings/resume_facts.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kReadNumel = 1 << 20;  // by one thread at a time

DType stored_dtype(FileSystem& files, const std::string& folder) {
  const WeightFolder weights = WeightFolder::open(files, folder);
  const std::vector<std::string> names = weights.names();
  const bool all = !names.empty() && std::ranges::all_of(names, [&](const std::string& name) {
    return weights.info(name).stored_dtype == DType::kBF16;
  });
  return all ? DType::kBF16 : DType::kF32;
}

// What the configuration of the run says that wrote the folder; nothing for other folders.
std::optional<DataSection> data_of(FileSystem& files, const std::string& folder) {
  const std::string run = fs::path(folder).parent_path().string();
  const std::string config = join_path(run, "config.json");
  const bool of_run = own_checkpoint(files, run).kind == OwnCheckpoint::Kind::kRun;
  if (!of_run || !files.exists(config)) return std::nullopt;
  return load_config(config).data;
}

// The folder's own. What a run with the byte tokenizer wrote has none, and the run's configuration
// beside it says so.
std::string tokenizer_of(FileSystem& files, const std::string& folder,
                         const std::optional<DataSection>& data) {
  if (!data || !tokenizer_files(files, folder).empty()) return folder;
  return data->tokenizer == "byte" ? "byte" : folder;
}

// The folder is checked as a whole, whatever part of it is wanted.
void load_folder(FileSystem& files, const std::string& folder, const ModelConfig& model,
                 HeadUse use, PlainStore& store, Stream& stream) {
  const std::vector<ParamSpec> specs = specs_of_model(model, DType::kF32);
  const AdaptedWeights weights(files, folder, specs, {},
                               model.adapters ? model.adapters->folder : std::nullopt);
  const bool lacks_head = !weights.base().headless().empty() && !weights.base().fresh().empty();
  if (use == HeadUse::kNeeded && lacks_head) {
    throw Unsupported(
        fmt::format("{}: {}, which its config.json names, is a class without a head, which was "
                    "never trained; what needs one can be done after training alone",
                    folder, weights.base().headless()));
  }
  HostCopy through(stream);
  for (ParamId id = 0; id < store.count(); ++id) {
    const auto same = std::ranges::find(specs, store.spec(id).name, &ParamSpec::name);
    DS_CHECK(same != specs.end(), "{} is no parameter of the model", store.spec(id).name);
    const auto index = static_cast<size_t>(same - specs.begin());
    if (!weights.is_stored(index)) continue;
    through.up(store.weight(id), [&](int64_t first, Tensor& flat) {
      stream.pool().parallel_for(flat.numel(), kReadNumel, [&](int64_t begin, int64_t end) {
        Tensor part = flat.narrow(begin, end - begin);
        weights.read(index, first + begin, part);
      });
    });
  }
}

ModelSource from_folder(FileSystem& files, const std::string& folder, HeadUse use) {
  const ModelConfig model = read_hf_model(files, folder);
  // Other models need nothing of it, and go without one that cannot be read.
  const bool is_wanted = model.classifier || tokenizer_files(files, folder).empty();
  const std::optional<DataSection> data = is_wanted ? data_of(files, folder) : std::nullopt;
  return {.place = folder,
          .model = model,
          .tokenizer = tokenizer_of(files, folder, data),
          .folder = folder,
          .data = data,
          .stored = stored_dtype(files, folder),
          .load = [&files, folder, model, use](PlainStore& store, Stream& stream) {
            load_folder(files, folder, model, use, store, stream);
          }};
}

// Adapters, and the model that they belong to. `place` may have a tokenizer of its own.
ModelSource from_adapters(FileSystem& files, const std::string& place,
                          const std::optional<std::string>& base, HeadUse use) {
  const AdapterFolder found = open_adapter_folder(files, place, base);
  const std::optional<DataSection> data = data_of(files, place);
  const bool has_own = !tokenizer_files(files, place).empty() || data;
  return {.place = place,
          .model = found.model,
          .tokenizer = has_own ? tokenizer_of(files, place, data)
                               : tokenizer_of(files, found.base, std::nullopt),
          .folder = found.base,
          .data = data,
          .stored = stored_dtype(files, found.base),
          .load = [&files, found, use](PlainStore& store, Stream& stream) {
            load_folder(files, found.base, found.model, use, store, stream);
          }};
}

// That of the run which made the tag. What stands two folders up may be of one that was refused.
Config config_of_tag(FileSystem& files, const std::string& tag) {
  const CheckpointReader reader = CheckpointReader::open_directory(files, tag);
  if (reader.has_state(kFactsState)) {
    return parse_config(parse_facts(reader.state(kFactsState)).config);
  }
  const std::string run = fs::path(tag).parent_path().parent_path().string();
  return load_config(run + "/config.json");
}

ModelSource from_tag(FileSystem& files, const std::string& tag) {
  const Config config = config_of_tag(files, tag);
  const ModelConfig model = model_config(config, files);
  return {.place = tag,
          .model = model,
          .tokenizer = config.data.tokenizer,
          .folder = std::nullopt,
          .data = config.data,
          .stored = DType::kF32,  // the master weights
          .load = [&files, tag, model, folder = config.model.folder](PlainStore& store,
                                                                     Stream& stream) {
            CheckpointReader reader = CheckpointReader::open_directory(files, tag);
            const FrozenOfTag frozen(files, reader, model, {.tag = tag, .folder = folder});
            HostCopy through(stream);
            for (ParamId id = 0; id < store.count(); ++id) {
              const ParamSpec& spec = store.spec(id);
              Tensor flat = store.weight(id).reshape({spec.shape.numel()});
              if (frozen.has(spec.name)) {
                through.up(flat, [&](int64_t first, Tensor& part) {
                  frozen.read(spec.name, first, part);
                });
                continue;
              }
              const bool direct = flat.dtype() == DType::kF32;
              Tensor master = direct ? flat : Tensor::empty(flat.shape(), DType::kF32, stream);
              reader.get(spec.name + "/weight", spec.region(), master, through);
              if (!direct) kernels::cast(stream, master, flat);
            }
          }};
}

// The tag that a run goes on from. `given`: how the place was named.
ModelSource newest_of_run(FileSystem& files, const std::string& place, const std::string& given) {
  for (const std::string& root : {place + "/checkpoints", place}) {
    if (!files.exists(root)) continue;
    const FoundTag found = find_newest_valid(files, root, Depth::kIndexes);
    for (const std::string& why : passed_over(found)) fmt::print(stderr, "warning: {}\n", why);
    if (const std::string note = set_back(found, root); !note.empty()) {
      fmt::print(stderr, "note: {}\n", note);
    }
    if (found.tag) return from_tag(files, root + "/" + found.tag->tag);
    if (const std::string advice = deepspeed_advice(files, root); !advice.empty()) {
      throw Unsupported(advice);
    }
    if (!found.rejected.empty()) {
      throw InputMissing(
          fmt::format("{}: no tag can be read: {}", given, found.rejected.front().why));
    }
  }
  if (const std::string advice = deepspeed_advice(files, place); !advice.empty()) {
    throw Unsupported(advice);
  }
  throw InputMissing(fmt::format(
      "{} is no run directory, checkpoint tag or Hugging Face folder with weights", given));
}

}  // namespace

ModelSource open_model_source(FileSystem& files, const GivenModel& given, HeadUse use) {
  const std::string place = fs::weakly_canonical(given.place).string();
  const bool is_tag = files.exists(place + "/manifest.json");
  for (const std::string& folder : {place, place + "/final"}) {
    if (!is_tag && are_meant(files, folder, given.base.has_value())) {
      return from_adapters(files, folder, given.base, use);
    }
  }
  if (given.base) refuse_base(*given.base, given.place);
  if (is_tag) return from_tag(files, place);
  if (has_hf_weights(files, place)) return from_folder(files, place, use);
  if (has_hf_weights(files, place + "/final")) return from_folder(files, place + "/final", use);
  return newest_of_run(files, place, given.place);
}

std::string tokenizer_place(FileSystem& files, const std::string& given) {
  if (given == "byte" || given == "bytes") return "byte";
  if (tokenizer_file_in(files, given)) return given;
  for (const char* const part : {"manifest.json", "checkpoints", "final"}) {
    if (files.exists(join_path(given, part))) return open_model_source(files, {given}).tokenizer;
  }
  return given;
}

ModelSource rehearsal_of(const ModelSource& source) {
  ModelSource twin = source;
  twin.load = [](PlainStore& store, Stream& stream) {
    for (ParamId id = 0; id < store.count(); ++id) {  // what is converted is fp32 before
      if (store.weight(id).dtype() == DType::kF32) continue;
      const Tensor master = Tensor::empty(store.weight(id).shape(), DType::kF32, stream);
    }
  };
  return twin;
}

LoadedWeights::LoadedWeights(const ModelPlace& place)
    : pool(place.threads),
      stream({.device = place.device,
              .memory = place.memory != nullptr ? place.memory : &heap,
              .pool = &pool,
              .stands_for = place.stands_for}),
      store(stream) {}

void LoadedWeights::load(const ModelSource& source) {
  store.seal();
  source.load(store, stream);
}

LoadedModel::LoadedModel(const ModelSource& source, DType dtype, const ModelPlace& place)
    : weights_(place),
      model_(make_model(source.model, dtype, weights_.store)),
      dims_(dimensions(source.model)) {
  weights_.load(source);
}

LoadedStage::LoadedStage(const ModelSource& source, LayerRange layers, DType dtype,
                         const ModelPlace& place)
    : weights_(place),
      layers_(layers),
      stage_(make_stage(source.model, dtype, weights_.store, layers)) {
  weights_.load(source);
}

}  // namespace ds
