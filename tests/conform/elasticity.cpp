// Areas elasticity and batch_config: batch and device counts, with elasticity and without it.
// run.
#include <charconv>

#include "config/elastic_batch.h"
#include "config/elastic_reader.h"
#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"

namespace ds::conform {
namespace {

const Json& section_of(const Json& config) {
  if (const Json* section = find(config, "elasticity")) return *section;
  throw ElasticError(ElasticProblem::kConfig, "elasticity: the section is missing");
}

std::optional<int64_t> environment_world(const Json& input) {
  const std::string text = get_or<std::string>(input, "env_WORLD_SIZE", "");
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool numeric = !text.empty() && error == std::errc() && end == text.data() + text.size();
  return numeric ? std::optional(value) : std::nullopt;
}

std::string compute(const Json& input) {
  const Json& section = section_of(need(input, "config"));
  if (!elasticity_enabled(section)) {
    throw ElasticError(ElasticProblem::kConfig, "elasticity: the section is disabled");
  }
  const ElasticOptions options = read_elastic_options(section);
  require_elastic_version(get<std::string>(input, "target_version"));
  const int64_t world = get<int64_t>(input, "world_size");
  const ElasticBatch batch =
      elastic_batch(options, {.given = world, .fallback = environment_world(input)});
  const bool wants_micro = get_or(input, "return_microbatch", false);
  if (wants_micro && world == 0 && options.version == 0.1) {
    throw ElasticError(ElasticProblem::kConfig,
                       "elasticity: version 0.1 needs a world size for a micro batch");
  }
  Answer answer;
  answer.add("final_batch_size", batch.train_batch_size);
  batch.valid_counts ? answer.add("valid_gpus", *batch.valid_counts)
                     : answer.add("valid_gpus", std::nullopt);
  if (world > 0 || wants_micro) {
    batch.micro_batch_size ? answer.add("micro_batch_size", *batch.micro_batch_size)
                           : answer.add("micro_batch_size", std::nullopt);
  }
  return answer.text();
}

std::string immutable(const Json& input) {
  if (const Json* scheduler = find(input, "scheduler")) {
    require_same_elasticity(read_elastic_options(*scheduler),
                            read_elastic_options(need(input, "runtime")));
  }
  return Answer().add("ok", true).text();
}

std::string enabled(const Json& input) {
  const Json* section = find(need(input, "config"), "elasticity");
  return Answer().add("enabled", section != nullptr && elasticity_enabled(*section)).text();
}

}  // namespace

std::string elasticity(const rapidjson::Value& input) {
  const std::string op = get<std::string>(input, "op");
  try {
    if (op == "immutable") return immutable(input);
    if (op == "enabled") return enabled(input);
    return compute(input);
  } catch (const ElasticError& error) {
    return error_text(to_string(error.problem()));
  }
}

std::string batch_config(const rapidjson::Value& input) {
  const Json& config = need(input, "config");
  const auto train = get_optional<int64_t>(config, "train_batch_size");
  const auto micro = get_optional<int64_t>(config, "train_micro_batch_size_per_gpu");
  const auto accumulation = get_optional<int64_t>(config, "gradient_accumulation_steps");
  const int64_t world = data_parallel_size(get<int64_t>(input, "world_size"),
                                           get_or<int64_t>(config, "sequence_parallel_size", 1));
  const Json* section = find(config, "elasticity");
  BatchSizes sizes;
  if (section && elasticity_enabled(*section)) {
    const auto keys = train || micro || accumulation ? BatchKeys::kPresent : BatchKeys::kAbsent;
    sizes = elastic_batch_sizes(read_elastic_options(*section), world, keys);
  } else {
    sizes = resolve_batch(train, micro, accumulation, world);
  }
  return Answer()
      .add("train_batch_size", sizes.train)
      .add("train_micro_batch_size_per_gpu", sizes.micro)
      .add("gradient_accumulation_steps", sizes.accumulation)
      .text();
}

}  // namespace ds::conform
