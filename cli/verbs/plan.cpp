#include "cli/verbs/plan.h"

#include <CLI/CLI.hpp>

#include "cli/option_kinds.h"
#include "core/error.h"
#include "core/number_text.h"

namespace ds {

void describe_plan(CLI::App& app, PlanArgs& values) {
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
  const auto add_size = [&](const char* name, std::optional<std::string>& size,
                            const std::string& description) {
    app.add_option(name, size, description)->type_name("SIZE")->check([](const std::string& text) {
      return parse_bytes(text) ? "" : "\"" + text + "\" is no size, expected one like 80GiB";
    });
  };
  add_size("--device-memory", values.device_memory,
           "Memory of each rank's device: prints the largest models of the configured one's "
           "proportions that fit, and the settings that reach them");
  add_size("--host-memory", values.host_memory,
           "Memory of the host for all its ranks, with --device-memory (default: none to offload "
           "to)");
  add_size("--nvme", values.nvme,
           "Room on NVMe for all ranks of the host, with --device-memory (default: none)");
  app.footer(
      "Examples:\n"
      "  dslaunch plan train.json\n"
      "  dslaunch plan train.json --num-ranks 8 zero_optimization.stage=3 --json\n"
      "  dslaunch plan train.json --device cuda --num-ranks 64\n"
      "  dslaunch plan train.json --device-memory 80GiB --host-memory 512GiB --nvme 4TiB");
  app.final_callback([&values] {
    check_overrides(values.overrides);
    if (!values.device_memory && (values.host_memory || values.nvme)) {
      throw UsageError(
          "plan: --host-memory and --nvme are asked for together with "
          "--device-memory");
    }
  });
}

}  // namespace ds
