#include "cli/verbs/elastic.h"

#include "cli/number_checks.h"
#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {

void describe_elastic(VerbApp& app, ElasticVerbOptions& values) {
  app.add_option("config", values.config, "train.json with an elasticity section")
      ->type_name("FILE")
      ->required();
  add_overrides(app, values.overrides);
  app.add_option("-w,--world-size", values.world_size, "Also the micro batch for so many ranks")
      ->check(whole_check(0, 1 << 16))
      ->type_name("N");
  app.add_option("--nodes", values.nodes, "Nodes of the job, for the table of losses")
      ->check(count_check())
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--devices-per-node", values.devices_per_node, "Ranks on each node")
      ->check(count_check())
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--json", values.json,
               "Print final_batch_size, valid_gpus and micro_batch_size as JSON");
  app.footer(
      "Examples:\n"
      "  dslaunch elastic train.json --nodes 4 --devices-per-node 8\n"
      "  dslaunch elastic train.json --world-size 16 --json");
  app.final_callback([&values] { check_overrides(values.overrides); });
}

}  // namespace ds
