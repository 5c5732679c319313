#include "rankd/verbs/plan.h"

#include <algorithm>
#include <cstdio>

#include "cli/text/terminal_text.h"
#include "config/load.h"
#include "config/rules.h"
#include "core/files/input_files.h"
#include "core/values/index.h"
#include "core/values/number_text.h"
#include "data/cache/token_cache.h"
#include "data/tokens/text_memory.h"
#include "rankd/verbs/planned_way.h"
#include "rankd/verbs/suggest.h"
#include "rankd/verbs/weights/resume_from.h"
#include "train/assemble.h"
#include "train/plan/dry_run.h"
#include "train/plan/fit.h"
#include "train/plan/limits.h"

namespace ds {
namespace {

// Ways to train that differ in where state is, from what takes the device's memory to what spares
// it. What the configuration offloads itself is in the first one only.
std::vector<Settings> ways_to_train(const Config& config, int ranks, const MachineRoom& room) {
  const auto way = [&](int stage, const std::string& optimizer, const std::string& param,
                       bool activations) {
    Settings settings{fmt::format("zero_optimization.stage={}", stage)};
    const auto place = [&](const std::string& key, const std::string& device, bool configured) {
      if (device != "none" || configured) {
        settings.push_back(fmt::format("zero_optimization.{}.device={}", key, device));
      }
    };
    place("offload_optimizer", optimizer, config.zero_optimization.offload_optimizer.has_value());
    if (param == "nvme") {  // all of them, in buffers as large as they have to be
      settings.emplace_back("zero_optimization.offload_param.max_in_cpu=0");
      settings.emplace_back("zero_optimization.offload_param.buffer_size=1000000000");
    }
    place("offload_param", param, config.zero_optimization.offload_param.has_value());
    if (activations || config.train.offload_activations) {
      settings.push_back(fmt::format("train.offload_activations={}", activations));
    }
    return settings;
  };
  std::vector<Settings> ways{{}};
  for (int stage = ranks > 1 ? 0 : 3; stage <= 3; ++stage) {
    ways.push_back(way(stage, "none", "none", false));
  }
  if (room.host) {
    ways.push_back(way(3, "none", "none", true));
    ways.push_back(way(3, "none", "cpu", true));
    ways.push_back(way(2, "cpu", "none", true));
    ways.push_back(way(3, "cpu", "none", true));
    ways.push_back(way(3, "cpu", "cpu", true));
  }
  if (room.host && room.nvme > 0) {
    ways.push_back(way(3, "none", "nvme", true));
    ways.push_back(way(3, "cpu", "nvme", true));
    ways.push_back(way(3, "nvme", "none", true));
    ways.push_back(way(3, "nvme", "cpu", true));
    ways.push_back(way(3, "nvme", "nvme", true));
  }
  return ways;
}

// Sample by sample, with the same global batch.
Settings in_single_samples(const EngineOptions& options) {
  return {
      "train_micro_batch_size_per_gpu=1",
      fmt::format("gradient_accumulation_steps={}", options.micro_batch * options.micro_steps())};
}

class FitSearch {
 public:
  FitSearch(const PlanArgs& args, const ModelConfig& model, const DeviceCeilings& ceilings)
      : args_(args), model_(model), ceilings_(ceilings), guess_(heads_of(model)) {}

  FitRow row(const Settings& settings, const MachineRoom& room, int ranks) {
    FitRow row{.settings = settings};
    const WayRead read = read_way(args_, model_, settings);
    row.refused = read.refused;
    if (!read.way) return row;
    row.micro_batch = read.way->options.micro_batch;
    try {
      row.fit =
          largest_fit(read.way->options, job_mesh(read.way->config, ranks, args_.ranks_of_host()),
                      room, ceilings_, guess_);
      if (row.fit) guess_ = heads_of(row.fit->model);
    } catch (const ConfigError& error) {
      row.refused = error.what();
    } catch (const Unsupported& error) {
      row.refused = error.what();
    }
    return row;
  }

 private:
  const PlanArgs& args_;
  const ModelConfig& model_;
  const DeviceCeilings& ceilings_;
  int64_t guess_;
};

int run_fit(const PlanArgs& args, const Config& config, const EngineOptions& options, int ranks,
            const DeviceCeilings& ceilings) {
  if (!options.zero.layout.frozen.empty()) {
    throw ConfigError(
        "train.freeze: it and train.train_only name parameters of a model with these layers, and "
        "the largest that fits has others; leave them out, or plan without --device-memory");
  }
  if (options.distillation) {
    throw ConfigError(
        "train.distillation: the largest model that fits is looked for without a teacher; leave it "
        "out, or plan without --device-memory");
  }
  const auto bytes = [](const std::optional<std::string>& size) {
    return size ? to_size(parse_bytes(*size).value()) : size_t{0};
  };
  FitTable table{
      .room = {.device = bytes(args.device_memory),
               .host = args.host_memory ? std::optional(bytes(args.host_memory)) : std::nullopt,
               .nvme = bytes(args.nvme)},
      .ranks = ranks,
      .rows = {}};
  FitSearch search(args, options.model, ceilings);
  for (const Settings& way : ways_to_train(config, ranks, table.room)) {
    table.rows.push_back(search.row(way, table.room, ranks));
    if (options.micro_batch == 1 || !table.rows.back().refused.empty()) continue;
    Settings smaller = way;
    for (std::string& word : in_single_samples(options)) smaller.push_back(std::move(word));
    table.rows.push_back(search.row(smaller, table.room, ranks));
  }
  say("{}", args.json ? fit_json(table) : fit_text(table));
  return static_cast<int>(table.largest() != nullptr ? ExitCode::kDone : ExitCode::kConfig);
}

// What is opened together: training data, each entry for itself if they have weights, and
// validation data.
std::vector<std::vector<std::string>> opened_together(const DataSection& data) {
  std::vector<std::vector<std::string>> out;
  if (data.weights.empty()) {
    out.push_back(data.train);
  } else {
    for (const std::string& entry : data.train) out.push_back({entry});
  }
  out.push_back(data.validation);
  return out;
}

// Nothing if one of the texts, or the tokenizer, cannot be looked at: a plan is made without them,
// too.
std::optional<TextMemory> texts_of(const PlanArgs& args, const DataSection& data,
                                   FileSystem& files) {
  std::vector<TextBytes> runs;
  bool has_problem = false;
  for (const std::vector<std::string>& paths : opened_together(data)) {
    const DataLook look = look_at_token_sources(files, paths, {.field = data.field},
                                                [&](const Error&) { has_problem = true; });
    runs.insert(runs.end(), look.texts.begin(), look.texts.end());
  }
  if (has_problem) return std::nullopt;
  const bool takes_bytes = data.tokenizer == "byte";
  const bool has_plain = std::ranges::any_of(
      runs, [](const TextBytes& run) { return run.large_plain + run.small_plain > 0; });
  bool in_parts = true;  // which matters to plain texts alone
  try {
    if (has_plain) in_parts = make_tokenizer(files, data.tokenizer)->encodes_in_parts();
  } catch (const Error&) {
    return std::nullopt;
  }
  return memory_of_texts(runs,
                         {.has_cache = !data.cache_folder.value_or(default_token_cache()).empty(),
                          .takes_bytes = takes_bytes,
                          .reads_in_place = takes_bytes && data.separator.value_or("").empty(),
                          .holds_texts = !in_parts,
                          .threads = args.threads * args.ranks_of_host()});
}

}  // namespace

int run_plan(const PlanArgs& args) {
  const Config config = load_config(args.config_path, args.overrides);
  RealFileSystem files;
  InputFiles inputs(files);
  const ModelConfig model = training_model(config, inputs);
  if (args.suggest) return run_suggest(args, config, model);
  const int ranks = args.ranks();
  const EngineOptions options = engine_options(config, model, ranks);
  const DeviceCeilings ceilings = planned_ceilings(args, {.config = config, .options = options});
  if (args.device_memory) return run_fit(args, config, options, ranks, ceilings);
  RunPlan plan = dry_run(options, job_mesh(config, ranks, args.ranks_of_host()), ceilings);
  if (!model.classifier && !model.pairs) plan.texts = texts_of(args, config.data, inputs);
  if (config.train.resume_from) plan.begins_with = resume_words(*config.train.resume_from, inputs);
  say("{}", args.json ? plan_json(plan) : plan_text(plan, options));
  if (!args.json && options.zero.offloads_state()) {
    say("host update   {}\n", host_update_begins(config));
  }
  std::fflush(stdout);  // before the error of a plan that is over a limit
  require_within(plan, memory_limits(config));
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace ds
