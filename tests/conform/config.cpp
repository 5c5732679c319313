// Area config: how a DeepSpeed JSON file resolves. Answers by the product's reader; errors that
// only we raise (unknown keys that DeepSpeed ignores) are left out, and notes on what its newest
// release refuses count, since the cases ask what that release says.
#include <fmt/format.h>

#include <cmath>

#include "config/batch.h"
#include "config/catalogue.h"
#include "config/elastic_batch.h"
#include "config/elastic_options.h"
#include "config/field_writer.h"
#include "config/load.h"
#include "config/reader/json_reader.h"
#include "core/status/error.h"
#include "tests/conform/areas.h"

namespace ds::conform {

namespace {

ReadConfig read_input(const rapidjson::Value& input) {
  const std::string op = input["op"].GetString();
  if (op == "config_text") return read_config_text(input["text"].GetString(), "text");
  if (op == "config_base64") {
    return read_config_text(decode_base64(input["base64"].GetString()), "base64");
  }
  return read_config_text(to_text(input["config"]), "config");
}

void refuse_what_deepspeed_refuses(const Problems& problems) {
  for (const Problem& problem : problems.all()) {
    if (problem.basis == Basis::kDeepSpeed) {
      throw ConfigError(problem.text());
    }
  }
}

void complete_batch(Config& config, int64_t world) {
  const int64_t ranks = data_parallel_size(world, config.sequence_parallel_size.value_or(1));
  const BatchSizes sizes =
      config.elasticity.enabled
          ? elastic_batch_sizes(elastic_options(config.elasticity), ranks, BatchKeys::kAbsent)
          : resolve_batch(config.train_batch_size, config.train_micro_batch_size_per_gpu,
                          config.gradient_accumulation_steps, ranks);
  config.train_batch_size = sizes.train;
  config.train_micro_batch_size_per_gpu = sizes.micro;
  config.gradient_accumulation_steps = sizes.accumulation;
}

const Value* at_path(const Value& root, std::string_view path) {
  const Value* value = &root;
  while (value && !path.empty()) {
    const size_t dot = path.find('.');
    value = value->find(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
  }
  return value;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Optimizer, scheduler and LoCo as they were written: DeepSpeed hands these parameters on unread;
// and the devices of offloading.
void keep_as_written(const Config& config, const Value& document, Value& resolved) {
  for (const char* section : {"optimizer", "scheduler"}) {
    Value& target = *resolved.find(section);
    const Value* type = at_path(document, fmt::format("{}.type", section));
    const Value* params = at_path(document, fmt::format("{}.params", section));
    const bool typed = type && !type->is_null();
    target.set("params", typed && params ? *params : Value::null());
    if (typed) target.set("type", *type);
  }
  if (const Value* loco = at_path(document, "zero_optimization.zeropp_loco_param")) {
    resolved.find("zero_optimization")->set("zeropp_loco_param", *loco);
  }
  // What has no effect at a stage is settled here.
  for (const char* section : {"offload_param", "offload_optimizer"}) {
    const std::string path = fmt::format("zero_optimization.{}", section);
    const Value* device = at_path(document, path + ".device");
    Value* offload = resolved.find("zero_optimization")->find(section);
    if (device && offload && offload->is_object() && device->is_string() &&
        device->as_string() != "auto") {
      offload->set("device", *device);
    }
  }
  const Value* autocast = at_path(document, "torch_autocast.enabled");
  Value* section = resolved.find("torch_autocast");
  if (autocast && section && section->is_object()) section->set("enabled", *autocast);
  // SGD is no optimizer of DeepSpeed's own, whose names alone are lowered.
  if (config.optimizer.type && config.optimizer.type != OptimizerType::kSgd) {
    const std::string name = resolved.find("optimizer")->find("type")->as_string();
    resolved.find("optimizer")->set("type", Value::string(lower(name)));
  }
}

Value dynamic_args(const Fp16Config& fp16) {
  Value args = Value::object();
  const auto power = static_cast<int>(std::clamp<int64_t>(fp16.initial_scale_power, -1000, 1000));
  args.set("init_scale", Value::number(std::ldexp(1.0, power)));
  args.set("scale_window", Value::integer(fp16.loss_scale_window));
  args.set("delayed_shift", Value::integer(fp16.hysteresis));
  args.set("consecutive_hysteresis", Value::boolean(fp16.consecutive_hysteresis));
  args.set("min_scale", Value::integer(static_cast<int64_t>(fp16.min_loss_scale)));
  return args;
}

void add_derived(const Config& config, Value& resolved) {
  resolved.set("zero_enabled", Value::boolean(config.zero_optimization.stage > 0));
  resolved.set("monitor_enabled",
               Value::boolean(config.tensorboard.enabled || config.wandb.enabled ||
                              config.comet.enabled || config.csv_monitor.enabled));
  resolved.set("comms_logger_enabled", Value::boolean(config.comms_logger.enabled));
  resolved.find("fp16")->set("dynamic_args", dynamic_args(config.fp16));
  Value& checkpoint = *resolved.find("checkpoint");
  const TagValidation validation = config.checkpoint.tag_validation;
  checkpoint.set("tag_validation",
                 Value::string(upper(checkpoint.find("tag_validation")->as_string())));
  checkpoint.set("tag_validation_enabled", Value::boolean(validation != TagValidation::kIgnore));
  checkpoint.set("tag_validation_fail", Value::boolean(validation == TagValidation::kFail));
  if (const auto& offload = config.zero_optimization.offload_optimizer) {
    resolved.find("zero_optimization")
        ->find("offload_optimizer")
        ->set("pipeline", Value::boolean(offload->pipeline_read || offload->pipeline_write));
  }
}

}  // namespace

std::string config(const rapidjson::Value& input) {
  ReadConfig read = read_input(input);
  refuse_what_deepspeed_refuses(read.problems);
  complete_batch(read.config, input["world_size"].GetInt64());
  Value resolved = write_effective_fields(read.config);
  keep_as_written(read.config, read.document, resolved);
  add_derived(read.config, resolved);
  const std::vector<CatalogueEntry> entries = catalogue();
  Value values = Value::object();
  for (const rapidjson::Value& query : input["query"].GetArray()) {
    const std::string path = query.GetString();
    const Value* value = at_path(resolved, path);
    if (!value) value = at_path(resolved, current_name(entries, path));
    values.set(path, value ? *value : Value::null());
  }
  Value answer = Value::object();
  answer.set("values", std::move(values));
  return to_compact_json(answer);
}

}  // namespace ds::conform
