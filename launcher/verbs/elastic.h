// `dslaunch elastic train.json`: what ds_elastic prints, and what losing nodes does to the batch.
#pragma once

#include <string>

#include "cli/verbs/elastic.h"

namespace ds {

// {"final_batch_size": .., "valid_gpus": [..], "micro_batch_size": ..} as ds_elastic has them, or
// the table of elastic_table(). Throws ElasticError, ConfigError, InputMissing.
std::string elastic_text(const ElasticVerbOptions& options);

// Prints it; returns 0.
int run_elastic(const ElasticVerbOptions& options);

}  // namespace ds
