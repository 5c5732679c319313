#include "cli/verbs/plan.h"

#include "cli/option_kinds.h"
#include "cli/verb_app.h"
#include "core/status/error.h"
#include "core/values/number_text.h"

namespace ds {
namespace {

void add_size(VerbApp& app, const char* name, std::optional<std::string>& size,
              const std::string& description) {
  app.add_option(name, size, description)->type_name("SIZE")->check([](const std::string& text) {
    return parse_bytes(text) ? "" : "\"" + text + "\" is no size, expected one like 80GiB";
  });
}

void describe_hosts_of_plan(VerbApp& app, PlanArgs& values) {
  app.add_option("--num-hosts", values.num_hosts,
                 "Hosts that --num-ranks are on, equally many on each (default: 1)")
      ->check(count_check())
      ->type_name("N");
  add_size(app, "--network", values.network,
           "Bytes per second from each host to others, with --num-hosts (default: 12.5GB)");
}

void check_together(const PlanArgs& values) {
  if (values.suggest && (values.host_memory || values.nvme)) {
    throw UsageError(
        "plan: --host-memory and --nvme are about the largest models; of a mesh that --suggest "
        "tries memory.host_limit says it");
  }
  if (!values.device_memory && (values.host_memory || values.nvme)) {
    throw UsageError(
        "plan: --host-memory and --nvme are asked for together with "
        "--device-memory");
  }
  if (values.num_hosts && !values.num_ranks) {
    throw UsageError("plan: --num-hosts needs --num-ranks, the ranks of all of them");
  }
  if (values.num_hosts && *values.num_ranks % *values.num_hosts != 0) {
    throw UsageError(fmt::format(
        "plan: {} ranks cannot be on {} hosts, equally many on each; --num-ranks is a multiple of "
        "--num-hosts",
        *values.num_ranks, *values.num_hosts));
  }
  if (values.network && !values.num_hosts) {
    throw UsageError("plan: --network is the speed between hosts, and needs --num-hosts");
  }
}

}  // namespace

void describe_plan(VerbApp& app, PlanArgs& values) {
  app.add_option("config", values.config_path, "train.json")->type_name("FILE")->required();
  add_overrides(app, values.overrides);
  app.add_option("--num-ranks", values.num_ranks,
                 "Ranks to plan for (default: those that run would use)")
      ->check(count_check())
      ->type_name("N");
  app.add_option("--num-threads", values.threads, "CPU threads per rank")
      ->check(count_check())
      ->type_name("N");
  app.add_option("--device", values.device,
                 "Where ranks compute (default: where those of run would); cuda plans for GPUs on "
                 "any machine")
      ->check(choice_check({"cpu", "cuda"}));
  app.add_flag("--json", values.json, "Print plan.json instead of a table");
  add_size(app, "--device-memory", values.device_memory,
           "Memory of each rank's device: prints the largest models of the configured one's "
           "proportions that fit, and the settings that reach them");
  add_size(app, "--host-memory", values.host_memory,
           "Memory of the host for all its ranks, with --device-memory (default: none to offload "
           "to)");
  add_size(app, "--nvme", values.nvme,
           "Room on NVMe for all ranks of the host, with --device-memory (default: none)");
  app.add_flag("--suggest", values.suggest,
               "Print the meshes (pipe x data x sequence x tensor) the ranks can make, the fastest "
               "first, and what rules others out; --device-memory is then each rank's limit");
  describe_hosts_of_plan(app, values);
  app.footer(
      "Examples:\n"
      "  dslaunch plan train.json\n"
      "  dslaunch plan train.json --num-ranks 8 zero_optimization.stage=3 --json\n"
      "  dslaunch plan train.json --device cuda --num-ranks 64\n"
      "  dslaunch plan train.json --suggest --num-ranks 8 --num-hosts 2 --device-memory 80GiB\n"
      "  dslaunch plan train.json --device-memory 80GiB --host-memory 512GiB --nvme 4TiB");
  app.final_callback([&values] {
    check_overrides(values.overrides);
    check_together(values);
  });
}

}  // namespace ds
