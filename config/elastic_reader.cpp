// The elasticity section from plain JSON.
#include "config/elastic_reader.h"

#include <cmath>
#include <cstdlib>

namespace ds {

namespace {

using Json = rapidjson::Value;

[[noreturn]] void refuse(const char* key, const char* expected) {
  throw ElasticError(ElasticProblem::kConfig,
                     fmt::format("elasticity: {} must be {}", key, expected));
}

const Json* find(const Json& section, const char* key) {
  const auto member = section.FindMember(key);
  return member == section.MemberEnd() ? nullptr : &member->value;
}

int64_t whole(const char* key, const Json& value) {
  if (value.IsInt64()) return value.GetInt64();
  constexpr double kExact = 9007199254740992.0;
  if (value.IsDouble() && std::trunc(value.GetDouble()) == value.GetDouble() &&
      std::abs(value.GetDouble()) < kExact) {
    return static_cast<int64_t>(value.GetDouble());
  }
  refuse(key, "a whole number");
}

// Versions are often written as text.
double number(const char* key, const Json& value) {
  if (value.IsNumber()) return value.GetDouble();
  if (value.IsString() && value.GetStringLength() > 0) {
    char* end = nullptr;
    const double parsed = std::strtod(value.GetString(), &end);
    if (end == value.GetString() + value.GetStringLength()) return parsed;
  }
  refuse(key, "a number");
}

void read(const Json& section, const char* key, int64_t& into) {
  if (const Json* value = find(section, key)) into = whole(key, *value);
}
void read(const Json& section, const char* key, double& into) {
  if (const Json* value = find(section, key)) into = number(key, *value);
}
void read(const Json& section, const char* key, bool& into) {
  const Json* value = find(section, key);
  if (!value) return;
  if (!value->IsBool()) refuse(key, "true or false");
  into = value->GetBool();
}

std::vector<int64_t> micro_batches(const Json& value) {
  if (!value.IsArray()) refuse("micro_batch_sizes", "a list of whole numbers");
  std::vector<int64_t> sizes;
  for (const Json& entry : value.GetArray()) {
    if (!entry.IsInt64()) refuse("micro_batch_sizes", "a list of whole numbers");
    sizes.push_back(entry.GetInt64());
  }
  return sizes;
}

}  // namespace

bool elasticity_enabled(const Json& section) {
  if (!section.IsObject()) {
    throw ElasticError(ElasticProblem::kConfig, "elasticity: the section must be an object");
  }
  bool enabled = false;
  read(section, "enabled", enabled);
  return enabled;
}

ElasticOptions read_elastic_options(const Json& section) {
  const bool enabled = elasticity_enabled(section);
  ElasticOptions options;
  for (const char* key : {"max_train_batch_size", "micro_batch_sizes"}) {
    if (enabled && !find(section, key)) refuse(key, "given");
  }
  read(section, "max_train_batch_size", options.max_train_batch_size);
  if (const Json* list = find(section, "micro_batch_sizes")) {
    options.micro_batch_sizes = micro_batches(*list);
  }
  read(section, "min_gpus", options.min_gpus);
  read(section, "max_gpus", options.max_gpus);
  read(section, "num_gpus_per_node", options.num_gpus_per_node);
  read(section, "model_parallel_size", options.model_parallel_size);
  read(section, "min_time", options.min_time);
  read(section, "version", options.version);
  read(section, "prefer_large_batch", options.prefer_larger_batch);
  read(section, "prefer_larger_batch", options.prefer_larger_batch);
  read(section, "ignore_non_elastic_batch_info", options.ignore_non_elastic_batch_info);
  validate(options);
  return options;
}

}  // namespace ds
