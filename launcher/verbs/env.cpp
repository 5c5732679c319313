#include "launcher/verbs/env.h"

#include <optional>

#include "cli/text/terminal_text.h"
#include "config/effect.h"
#include "core/status/error.h"
#include "launcher/inventory/features.h"
#include "launcher/inventory/inventory_text.h"
#include "launcher/inventory/libraries.h"
#include "launcher/inventory/machine_facts.h"
#include "launcher/process/devices/gpu_reader.h"
#include "launcher/process/devices/gpus.h"
#include "launcher/process/files/environment_list.h"
#include "launcher/process/machine.h"
#include "launcher/verbs/engine_verb.h"
#include "proto/build_info.h"

namespace ds {
namespace {

struct EngineBuild {
  std::optional<EngineFacts> facts;
  std::string problem;
};

EngineBuild engine_build(const CommandContext& context) {
  try {
    EngineFacts facts = parse_engine_facts(
        engine_output({"--inventory"}, context, "asking rankd what it was built with"));
    std::string problem;
    if (facts.build_id != build_id()) {
      problem = fmt::format("{} is of another build: {}, dslaunch {}", context.rank_program,
                            facts.build_id, build_id());
    }
    return {std::move(facts), std::move(problem)};
  } catch (const Error& error) {
    return {std::nullopt, error.what()};
  }
}

Fact cuda_kernels(const BuildInfo& build) {
  if (*build.cuda_kernels == '\0') return {.key = "cuda_kernels", .value = false};
  return {.key = "cuda_kernels",
          .value = std::string(build.cuda_kernels),
          .note = emulates_cuda(build) ? "the CPU executes them, with --device cuda" : ""};
}

FactGroup build_facts(const EngineBuild& engine, const CommandContext& context) {
  const BuildInfo build = build_info();
  FactGroup group{"build",
                  {{.key = "version", .value = std::string(build.version)},
                   {.key = "commit", .value = std::string(build.git_id)},
                   {.key = "build_id", .value = build_id()},
                   {.key = "compiler", .value = std::string(build.compiler)},
                   {.key = "build_type", .value = std::string(build.build_type)},
                   {.key = "cuda", .value = build.has_cuda, .note = "training on GPUs"},
                   cuda_kernels(build),
                   {.key = "mpi", .value = build.has_mpi},
                   {.key = "failpoints", .value = build.has_failpoints},
                   {.key = "sanitizers",
                    .value = *build.sanitizers != '\0' ? build.sanitizers : std::string("none")},
                   {.key = "dslaunch", .value = context.own_program}}};
  Fact& rankd = group.facts.emplace_back(Fact{.key = "rankd", .note = engine.problem});
  if (engine.facts) rankd.value = context.rank_program;
  return group;
}

FactGroup cpu_group(const EngineBuild& engine) {
  FactGroup group = cpu_facts();
  const std::string unasked = "rankd could not be asked";
  Fact onednn{.key = "used_by_onednn", .note = unasked};
  Fact vectors{.key = "used_by_vector_code", .note = unasked};
  if (engine.facts) {
    onednn = {.key = onednn.key, .value = engine.facts->onednn_isa};
    vectors = {.key = vectors.key, .value = engine.facts->vectors};
  }
  group.facts.push_back(std::move(onednn));
  group.facts.push_back(std::move(vectors));
  return group;
}

// Those of `names` that PATH leads to.
std::vector<std::string> programs_found(std::vector<std::string> names,
                                        const std::vector<std::string>& environment) {
  const Environment variables = as_environment(environment);
  const auto path = variables.find("PATH");
  std::erase_if(names, [&](const std::string& name) {
    return find_on_path(path == variables.end() ? "" : path->second, name).empty();
  });
  return names;
}

Inventory gather(const CommandContext& context) {
  const EngineBuild engine = engine_build(context);
  const agent::Facts probed = probe_this_machine();
  Inventory out;
  out.groups = {build_facts(engine, context),
                system_facts(),
                cpu_group(engine),
                gpu_facts(gpus_of_this_machine(), build_devices(), context.visible_gpus),
                memory_facts(probed),
                limit_facts(probed)};
  out.network = network_facts();
  if (engine.facts) out.libraries = engine.facts->libraries;
  for (auto& more : {launcher_libraries(), optional_libraries()}) {
    out.libraries.insert(out.libraries.end(), more.begin(), more.end());
  }
  out.missing_keys = keys_with_missing_features();
  FeatureInputs inputs{.engine_problem = engine.problem,
                       .shared_memory_problem = probed.shared_memory_error(),
                       .programs = programs_found({"ssh", "mpirun", "srun"}, context.environment),
                       .has_cuda = build_info().has_cuda,
                       .has_mpi = build_info().has_mpi,
                       .gpus = this_machine(context.visible_gpus).gpus,
                       .missing_keys = out.missing_keys};
  if (engine.facts) inputs.bf16_products = engine.facts->bf16_products;
  out.features = judge_features(inputs);
  return out;
}

}  // namespace

int run_env(const EnvOptions& options, const CommandContext& context) {
  const Inventory inventory = gather(context);
  say("{}", options.json ? inventory_json(inventory) : inventory_text(inventory));
  return 0;
}

}  // namespace ds
