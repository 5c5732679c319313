#include "config/sections/elasticity.h"

namespace ds {

void fields(Visitor& v, ElasticityConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch.", .effect = Effect::kUsed});
  v.field("max_train_batch_size", c.max_train_batch_size,
          {.meaning = "Largest acceptable global batch size.", .effect = Effect::kUsed});
  v.field("micro_batch_sizes", c.micro_batch_sizes,
          {.meaning = "Acceptable micro batch sizes.", .effect = Effect::kUsed, .above = 0});
  v.field("min_gpus", c.min_gpus,
          {.meaning = "Smallest GPU count searched.", .effect = Effect::kUsed, .min = 1});
  v.field("max_gpus", c.max_gpus,
          {.meaning = "Largest GPU count searched.", .effect = Effect::kUsed, .min = 1});
  v.field(
      "min_time", c.min_time,
      {.meaning = "Shortest running time in minutes before rescaling; 0 = unknown. A world runs "
                  "at least that long before it grows onto hosts that are there again.",
       .effect = Effect::kUsed,
       .min = 0});
  v.field("prefer_large_batch", c.prefer_large_batch,
          {.meaning = "Among equally good batch sizes take the larger one.",
           .effect = Effect::kUsed,
           .synonyms = {"prefer_larger_batch"}});
  v.field("version", c.version, {.meaning = "Version of the algorithm.", .effect = Effect::kUsed});
  v.field("ignore_non_elastic_batch_info", c.ignore_non_elastic_batch_info,
          {.meaning = "Silently override batch keys given outside this section.",
           .effect = Effect::kUsed});
  v.field("num_gpus_per_node", c.num_gpus_per_node,
          {.meaning = "GPUs per node.", .effect = Effect::kUsed, .min = 1});
  v.field("model_parallel_size", c.model_parallel_size,
          {.meaning = "Model-parallel degree.", .effect = Effect::kUsed, .min = 1});
}

}  // namespace ds
