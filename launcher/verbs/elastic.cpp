#include "launcher/verbs/elastic.h"

#include <fmt/ranges.h>

#include "cli/text/terminal_text.h"
#include "config/elastic_batch.h"
#include "config/elastic_options.h"
#include "config/load.h"
#include "core/status/error.h"
#include "launcher/decide/text/json_text.h"

namespace ds {
namespace {

std::string as_json(const ElasticBatch& batch) {
  JsonObject out;
  out.integer("final_batch_size", batch.train_batch_size);
  out.raw("valid_gpus",
          batch.valid_counts ? fmt::format("[{}]", fmt::join(*batch.valid_counts, ", ")) : "null");
  out.raw("micro_batch_size",
          batch.micro_batch_size ? std::to_string(*batch.micro_batch_size) : "null");
  return out.str() + "\n";
}

}  // namespace

std::string elastic_text(const ElasticVerbOptions& options) {
  const Config config = load_config(options.config, options.overrides);
  if (!config.elasticity.enabled) {
    throw ConfigError(fmt::format("{}: elasticity.enabled is not true", options.config));
  }
  const ElasticOptions elastic = elastic_options(config.elasticity);
  if (options.json) {
    const int64_t devices = options.nodes * options.devices_per_node;
    return as_json(elastic_batch(elastic, {options.world_size, devices}));
  }
  if (options.world_size > 0) {
    elastic_batch(elastic,
                  {options.world_size, options.world_size});  // throws where it does not fit
  }
  return elastic_table(elastic, options.nodes, options.devices_per_node, options.nodes - 1);
}

int run_elastic(const ElasticVerbOptions& options) {
  say("{}", elastic_text(options));
  return 0;
}

}  // namespace ds
