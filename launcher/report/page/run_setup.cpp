#include "launcher/report/page/run_setup.h"

#include <fmt/format.h>

#include <array>

namespace ds {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

// A scalar, or a list of scalars; empty for anything else.
std::string value_text(const Json& value) {
  if (value.IsString()) return {value.GetString(), value.GetStringLength()};
  if (value.IsBool()) return value.GetBool() ? "true" : "false";
  if (value.IsInt64()) return std::to_string(value.GetInt64());
  if (value.IsNumber()) return fmt::format("{:g}", value.GetDouble());
  if (!value.IsArray()) return "";
  constexpr size_t kMost = 6;
  std::string out;
  size_t count = 0;
  for (const Json& one : value.GetArray()) {
    if (one.IsArray() || one.IsObject()) return "";
    if (count++ < kMost) out += (out.empty() ? "" : ", ") + value_text(one);
  }
  return count > kMost ? fmt::format("{} and {} more", out, count - kMost) : out;
}

std::string value_in(const Json& object, const char* name) {
  const Json* const value = member(object, name);
  return value == nullptr ? "" : value_text(*value);
}

bool is_on(const Json& config, const char* section) {
  const Json* const found = member(config, section);
  return found != nullptr && value_in(*found, "enabled") == "true";
}

void add(Rows& rows, const char* what, const std::string& said) {
  if (!said.empty()) rows.emplace_back(what, said);
}

void append(std::string& list, const std::string& one) {
  if (!one.empty()) list += (list.empty() ? "" : ", ") + one;
}

// Its sizes are the whole numbers of the section, whatever a family calls them.
std::string model_text(const Json& config) {
  const Json* const model = member(config, "model");
  if (model == nullptr || !model->IsObject()) return "";
  std::string out = text_in(*model, "family");
  if (const std::string folder = text_in(*model, "folder"); !folder.empty()) append(out, folder);
  for (const auto& [name, value] : model->GetObject()) {
    if (value.IsInt64()) append(out, fmt::format("{} {}", name.GetString(), value.GetInt64()));
  }
  return out;
}

std::string batch_text(const Json& config) {
  std::string out;
  for (const char* const key :
       {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}) {
    const std::string value = value_in(config, key);
    if (!value.empty()) append(out, fmt::format("{} {}", key, value));
  }
  return out;
}

std::string typed_text(const Json& config, const char* section) {
  const Json* const found = member(config, section);
  if (found == nullptr) return "";
  std::string out = text_in(*found, "type");
  const Json* const params = member(*found, "params");
  if (params == nullptr || !params->IsObject()) return out;
  for (const auto& [name, value] : params->GetObject()) {
    if (!value.IsNumber() && !value.IsArray()) continue;
    if (const std::string said = value_text(value); !said.empty()) {
      append(out, fmt::format("{} {}", name.GetString(), said));
    }
  }
  return out;
}

std::string precision_text(const Json& config) {
  if (!member(config, "fp16")) return "";
  for (const char* const section : {"fp16", "bf16", "amp", "torch_autocast"}) {
    if (is_on(config, section)) return section;
  }
  return "fp32";
}

void add_data(Rows& rows, const Json& config) {
  const Json* const data = member(config, "data");
  if (data == nullptr) return;
  add(rows, "training data", value_in(*data, "train"));
  std::string held = value_in(*data, "validation");
  if (const auto fraction = number_in(*data, "validation_fraction"); fraction && *fraction > 0) {
    append(held, fmt::format("{:g} of the training data", *fraction));
  }
  add(rows, "validation data", held);
  add(rows, "tokenizer", value_in(*data, "tokenizer"));
  add(rows, "tokens of a sample", value_in(*data, "sequence_length"));
}

std::string where_text(const Json& plan) {
  const auto ranks = number_in(plan, "world_size");
  if (!ranks) return "";
  std::string out = fmt::format("{:.0f} {}", *ranks, *ranks == 1 ? "rank" : "ranks");
  if (const std::string device = text_in(plan, "device"); !device.empty()) out += " on " + device;
  for (const char* const axis : {"pipe", "data", "sequence", "ring", "tensor"}) {
    const Json* const mesh = member(plan, "mesh");
    const auto size = mesh != nullptr ? number_in(*mesh, axis) : std::nullopt;
    if (size && *size > 1) append(out, fmt::format("{} {:.0f}", axis, *size));
  }
  return out;
}

}  // namespace

Rows run_setup(const Json& config, const Json& plan) {
  Rows rows;
  add(rows, "model", model_text(config));
  if (const auto count = number_in(plan, "parameters")) {
    add(rows, "parameters", fmt::format("{:.0f}", *count));
  }
  add_data(rows, config);
  add(rows, "batch", batch_text(config));
  if (const Json* const train = member(config, "train")) {
    add(rows, "steps", value_in(*train, "steps"));
    add(rows, "epochs", value_in(*train, "epochs"));
  }
  add(rows, "optimizer", typed_text(config, "optimizer"));
  add(rows, "scheduler", typed_text(config, "scheduler"));
  add(rows, "clipping", value_in(config, "gradient_clipping"));
  add(rows, "precision", precision_text(config));
  if (const Json* const zero = member(config, "zero_optimization")) {
    add(rows, "ZeRO stage", value_in(*zero, "stage"));
  }
  add(rows, "where", where_text(plan));
  return rows;
}

}  // namespace ds
