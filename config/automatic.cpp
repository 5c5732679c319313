#include "config/automatic.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

#include "config/field_writer.h"

namespace ds {

namespace {

const Value* at_path(const Value& root, std::string_view path) {
  const Value* value = &root;
  while (value != nullptr && !path.empty()) {
    const size_t dot = path.find('.');
    value = value->find(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
  }
  return value;
}

const Value* automatic_at(const Value& document, std::string_view path) {
  const Value* value = at_path(document, path);
  return value != nullptr && value->is_string() && value->as_string() == "auto" ? value : nullptr;
}

std::string_view precision_of(const Config& config) {
  if (config.fp16.enabled) return "fp16";
  if (config.bf16.enabled) return "bf16";
  if (config.amp.enabled || config.torch_autocast.enabled) return "mixed";
  return "fp32";
}

void note_precision(const Value& document, const Config& config, Problems& problems) {
  for (const char* path : {"fp16.enabled", "bf16.enabled"}) {
    const Value* given = automatic_at(document, path);
    if (given == nullptr) continue;
    problems.note(
        path, given->origin(),
        fmt::format("\"auto\" is taken as false, as no trainer decides it: training is in "
                    "{} precision",
                    precision_of(config)));
  }
}

void settle_peak(const Value& document, const Value& settled, Config& config) {
  if (config.scheduler.type != SchedulerType::kWarmupDecayLR ||
      automatic_at(document, "scheduler.params.warmup_max_lr") == nullptr) {
    return;
  }
  const Value* rate = at_path(settled, "optimizer.params.lr");
  if (rate == nullptr || rate->is_null()) return;
  config.scheduler.warmup_decay.warmup_max_lr = {rate->as_number()};
}

// "0.001", or where the value is found when it is not written.
std::string settled_text(std::string_view path, const Value* value) {
  if (path.ends_with("warmup_max_lr")) return "the optimizer's learning rate";
  if (path.ends_with("total_num_steps")) return "train.steps";
  return value == nullptr || value->is_null() ? "not given" : to_compact_json(*value);
}

}  // namespace

void settle_automatic(const Value& document, Config& config, Problems& problems) {
  constexpr std::array<std::string_view, 12> kPaths = {"optimizer.params.lr",
                                                       "optimizer.params.betas",
                                                       "optimizer.params.eps",
                                                       "optimizer.params.weight_decay",
                                                       "optimizer.params.momentum",
                                                       "scheduler.params.warmup_min_lr",
                                                       "scheduler.params.warmup_max_lr",
                                                       "scheduler.params.warmup_num_steps",
                                                       "scheduler.params.warmup_min_ratio",
                                                       "scheduler.params.cos_min_ratio",
                                                       "scheduler.params.total_num_steps",
                                                       "gradient_clipping"};
  note_precision(document, config, problems);
  const Value settled = write_fields(config);
  settle_peak(document, settled, config);
  for (const std::string_view path : kPaths) {
    const Value* given = automatic_at(document, path);
    const Value* value = at_path(settled, path);
    if (given == nullptr || value == nullptr) continue;
    problems.note(std::string(path), given->origin(),
                  fmt::format("\"auto\" is taken as {}, as no trainer decides it",
                              settled_text(path, value)));
  }
}

}  // namespace ds
