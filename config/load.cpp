#include "config/load.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>

#include "config/automatic.h"
#include "config/field_writer.h"
#include "config/inert.h"
#include "config/origins.h"
#include "config/reader/json_reader.h"
#include "config/reader/overrides.h"
#include "config/reader/rewrite.h"
#include "config/reader/secret_keys.h"
#include "config/rules.h"
#include "core/files/home.h"
#include "core/files/input_files.h"
#include "core/status/error.h"

namespace ds {

namespace {

namespace fs = std::filesystem;

std::string read_file(const std::string& path) {
  RealFileSystem files;
  const std::unique_ptr<File> file = InputFiles(files).open(path);
  // One byte beyond the limit is enough for the reader to refuse the text.
  std::string text(std::min(static_cast<size_t>(file->size()), kMaxTextBytes + 1), '\0');
  file->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

IncludedFile read_include(const std::string& path, const std::string& directory,
                          Problems& problems) {
  const fs::path full = fs::path(directory) / expand_home(path).value_or(path);
  std::error_code error;
  const std::string identity = fs::weakly_canonical(full, error).string();
  return {read_config_document(read_file(full.string()), path, problems), identity,
          full.parent_path().string()};
}

std::string absolute(const std::string& path, const std::string& directory) {
  return fs::absolute(fs::path(directory) / path).lexically_normal().string();
}

// The keys whose values are files and folders of this machine.
enum class PathBase { kFolderOfFile, kWorkingDirectory };  // what a relative one is relative to
using PathUse = std::function<void(const char* key, std::string& path, PathBase base)>;

// A template is a file, or the name of one among those of a tokenizer.
bool names_file(const std::string& chat_template) {
  return chat_template.find('/') != std::string::npos || chat_template.ends_with(".jinja");
}

void visit_paths(Config& config, const PathUse& use) {
  const auto visit = [&](const char* key, std::optional<std::string>& path) {
    if (path && !path->empty()) use(key, *path, PathBase::kFolderOfFile);
  };
  visit("model.folder", config.model.folder);
  for (std::string& path : config.data.train) use("data.train", path, PathBase::kFolderOfFile);
  for (std::string& path : config.data.validation) {
    use("data.validation", path, PathBase::kFolderOfFile);
  }
  if (config.data.tokenizer != "byte") {
    use("data.tokenizer", config.data.tokenizer, PathBase::kFolderOfFile);
  }
  std::optional<ChatConfig>& chat = config.data.supervised.chat;
  if (chat && chat->chat_template && names_file(*chat->chat_template)) {
    use("data.chat.template", *chat->chat_template, PathBase::kFolderOfFile);
  }
  if (config.lora) visit("lora.adapter", config.lora->adapter);
  if (config.preference) visit("preference.reference", config.preference->reference);
  if (config.train.distillation && !config.train.distillation->teacher.empty()) {
    use("train.distillation.teacher", config.train.distillation->teacher, PathBase::kFolderOfFile);
  }
  visit("data.cache_folder", config.data.cache_folder);
  visit("train.resume_from", config.train.resume_from);
  visit("tensorboard.output_path", config.tensorboard.output_path);
  visit("csv_monitor.output_path", config.csv_monitor.output_path);
  visit("flops_profiler.output_file", config.flops_profiler.output_file);
  ZeroConfig& zero = config.zero_optimization;
  if (zero.offload_param) {
    use("zero_optimization.offload_param.nvme_path", zero.offload_param->nvme_path,
        PathBase::kWorkingDirectory);
  }
  if (zero.offload_optimizer) {
    use("zero_optimization.offload_optimizer.nvme_path", zero.offload_optimizer->nvme_path,
        PathBase::kWorkingDirectory);
  }
}

// "hf://datasets/x", "https://example.com/x.txt": what is before "://"; empty where it is no URL.
std::string_view url_scheme(std::string_view path) {
  const std::string_view scheme = path.substr(0, path.find("://"));
  const auto fits = [](unsigned char c) { return std::isalnum(c) || c == '+' || c == '-'; };
  return scheme.size() < path.size() && std::ranges::all_of(scheme, fits) ? scheme : "";
}

void make_paths_absolute(Config& config, const std::string& directory) {
  visit_paths(config, [&](const char* /*key*/, std::string& path, PathBase base) {
    if (base == PathBase::kFolderOfFile && url_scheme(path).empty())
      path = absolute(path, directory);
  });
}

std::string url_refusal(std::string_view key, const std::string& url) {
  const std::string_view scheme = url_scheme(url);
  const bool of_hub = scheme == "hf" || url.find("huggingface.co/") != std::string::npos;
  const std::string_view advice =
      scheme == "file" ? "write the path without file://"
      : of_hub && (key.starts_with("model") || key.starts_with("lora") ||
                   key.starts_with("preference") || key.starts_with("train.distillation"))
          ? "download it with `hf download NAME --local-dir DIR` (`huggingface-cli download` in "
            "older releases) and give DIR"
      : of_hub ? "download it with `hf download NAME --repo-type dataset --local-dir DIR` "
                 "(`huggingface-cli download` in older releases) and give the files in DIR"
      : key.starts_with("model") || key.starts_with("data")
          ? "download it, for instance with `curl -LO URL`, and give the path of what came"
          : "give a path";
  return fmt::format("\"{}\" is a URL, and files and folders of this machine are meant; {}",
                     without_passwords(url), advice);
}

// What a shell would have made of paths before it gave them, and what is none.
void read_paths(ReadConfig& result) {
  visit_paths(result.config, [&](const char* key, std::string& path, PathBase) {
    const Origin origin = origin_near(result.origins, key);
    if (!url_scheme(path).empty()) {
      return result.problems.error(Basis::kOwn, key, origin, url_refusal(key, path));
    }
    if (std::optional<std::string> expanded = expand_home(path)) {
      path = std::move(*expanded);
    } else {
      result.problems.error(Basis::kOwn, key, origin, no_home_text(path));
    }
  });
}

}  // namespace

namespace {

// DeepSpeed hands the parameters to torch.optim.AdamW then, which decays by 0.01 where nothing is
// said; our Adam and DeepSpeed's own do not.
void derive_torch_decay(ReadConfig& result) {
  OptimizerConfig& optimizer = result.config.optimizer;
  constexpr double kTorchAdamWDecay = 0.01;
  constexpr std::string_view kDecay = "optimizer.params.weight_decay";
  const bool adam =
      optimizer.type == OptimizerType::kAdam || optimizer.type == OptimizerType::kAdamW;
  if (!adam || !decays_decoupled(optimizer) || !optimizer.adam.torch_adam ||
      result.origins.contains(kDecay)) {
    return;
  }
  optimizer.adam.weight_decay = kTorchAdamWDecay;
  const auto given = result.origins.find(std::string_view("optimizer.params.torch_adam"));
  result.problems.note("optimizer.params.torch_adam", given->second,
                       "weight_decay is not given and is 0.01, the default of PyTorch's AdamW");
}

// DeepSpeed leaves it to the model which of its functions are checkpoints; here it is the section.
void turn_on_recomputation(ReadConfig& result) {
  constexpr std::string_view kSection = "activation_checkpointing";
  const Value* section = result.document.find(kSection);
  if (section == nullptr || !section->is_object() ||
      result.origins.contains("activation_checkpointing.enabled")) {
    return;
  }
  result.config.activation_checkpointing.enabled = true;
  result.problems.note(
      std::string(kSection), {},
      "is there, so each block is computed again in the backward pass; enabled: false keeps all "
      "activations");
}

// What DeepSpeed makes of offloading that is stage 3's at stages 1 and 2.
void settle_offload(ReadConfig& result) {
  ZeroConfig& zero = result.config.zero_optimization;
  if (zero.stage != 1 && zero.stage != 2) return;
  const auto note = [&](const std::string& path, const std::string& message) {
    result.problems.note(path, origin_near(result.origins, path), message);
  };
  if (zero.offload_param && zero.offload_param->device != OffloadDevice::kNone) {
    note("zero_optimization.offload_param",
         fmt::format("has no effect at ZeRO stage {}, which leaves parameters whole; it is for "
                     "stage 3",
                     zero.stage));
    zero.offload_param->device = OffloadDevice::kNone;
  }
  if (zero.offload_optimizer && zero.offload_optimizer->device == OffloadDevice::kNvme) {
    note("zero_optimization.offload_optimizer.device",
         fmt::format("nvme is for stage 3; at ZeRO stage {} the state is in the host's memory, as "
                     "with cpu",
                     zero.stage));
    zero.offload_optimizer->device = OffloadDevice::kCpu;
  }
}

// Beside training in the same 16 bits there is nothing left to cast.
void settle_autocast(ReadConfig& result) {
  TorchAutocastConfig& autocast = result.config.torch_autocast;
  const bool same = (result.config.bf16.enabled && autocast.dtype == AutocastType::kBf16) ||
                    (result.config.fp16.enabled && autocast.dtype == AutocastType::kFp16);
  if (!autocast.enabled || !same) return;
  const std::string path = "torch_autocast.enabled";
  result.problems.note(
      path, origin_near(result.origins, path),
      "has no effect beside bf16 or fp16 of the same type, whose operands have it");
  autocast.enabled = false;
}

// Not given, or given as "auto".
bool is_left_open(const Value& document, std::string_view section, std::string_view key) {
  const Value* around = document.find(section);
  const Value* value = around != nullptr && around->is_object() ? around->find(key) : nullptr;
  return value == nullptr || value->is_null() ||
         (value->is_string() && value->as_string() == "auto");
}

// Values that follow from other sections.
void derive(ReadConfig& result) {
  Config& config = result.config;
  derive_torch_decay(result);
  if (config.flops_profiler.enabled && !config.wall_clock_breakdown) {
    config.wall_clock_breakdown = true;
    result.problems.note("wall_clock_breakdown", {}, "is turned on by flops_profiler.enabled");
  }
  if (config.model.folder && is_left_open(result.document, "data", "tokenizer")) {
    config.data.tokenizer = *config.model.folder;
  }
}

}  // namespace

ReadConfig read_config_tree(Value document, Problems earlier) {
  ReadConfig result;
  result.problems = std::move(earlier);
  result.document = std::move(document);
  rewrite_old_spellings(result.document, result.problems);
  read_fields(result.document, result.config, result.origins, result.problems);
  read_paths(result);
  turn_on_recomputation(result);
  settle_automatic(result.document, result.config);
  settle_offload(result);
  settle_autocast(result);
  check_rules(result.config, result.origins, result.problems);
  const Effects effects = effects_of(result.config);
  note_inert_keys(result.config, effects, result.origins, result.problems);
  soften_what_is_off(effects, result.problems);
  derive(result);
  note_automatic(result.document, result.config, result.problems);
  return result;
}

ReadConfig read_config_text(std::string_view text, const std::string& source,
                            std::span<const std::string> overrides, const std::string& directory) {
  Problems problems;
  Value document = read_config_document(text, source, problems);
  const std::string where = directory.empty() ? "." : directory;
  std::error_code error;
  const std::string identity = fs::weakly_canonical(fs::path(where) / source, error).string();
  merge_includes(document, identity, where, [&](const std::string& path, const std::string& from) {
    return read_include(path, from, problems);
  });
  for (const std::string& override_text : overrides) {
    try {
      apply_override(document, override_text);
    } catch (const ConfigError& malformed) {
      problems.error(Basis::kOwn, "", {}, malformed.what());  // and on with the others
    }
  }
  ReadConfig result = read_config_tree(std::move(document), std::move(problems));
  if (!directory.empty()) make_paths_absolute(result.config, directory);
  return result;
}

namespace {

// Nothing for a misspelt file: a name with a dot, or a word that is base64 by chance, of what
// begins as no configuration does.
std::optional<std::string> text_of_base64(const std::string& place) {
  try {
    std::string text = decode_base64(place);
    const size_t first = text.find_first_not_of(" \t\r\n");
    // An object, or a comment or a byte order mark before it.
    constexpr std::string_view kBeginnings = "{/#\xEF";
    if (first != std::string::npos && kBeginnings.find(text[first]) != std::string_view::npos) {
      return text;
    }
  } catch (const ConfigError&) {  // no base64
  }
  return std::nullopt;
}

}  // namespace

ReadConfig read_config(const std::string& place, std::span<const std::string> overrides) {
  std::error_code error;
  if (fs::exists(place, error)) {
    const fs::path parent = fs::path(place).parent_path();
    return read_config_text(read_file(place), place, overrides,
                            parent.empty() ? "." : parent.string());
  }
  const std::optional<std::string> text = text_of_base64(place);
  if (!text) {
    throw InputMissing(
        fmt::format("config: {} is neither a file nor base64 of a configuration", place));
  }
  return read_config_text(*text, "base64", overrides);
}

Config load_config(const std::string& place, std::span<const std::string> overrides) {
  ReadConfig result = read_config(place, overrides);
  result.problems.throw_if_any();
  return std::move(result.config);
}

Config parse_config(std::string_view text, std::span<const std::string> overrides) {
  ReadConfig result = read_config_text(text, "config", overrides);
  result.problems.throw_if_any();
  return std::move(result.config);
}

std::string to_config_text(const Config& config) { return to_json(write_fields(config)); }

}  // namespace ds
