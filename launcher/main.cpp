// dslaunch: starts and watches training jobs. Environment variables are read here and nowhere else.
#include <openssl/crypto.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>
#include <variant>

#include "core/error.h"
#include "core/secrecy.h"
#include "launcher/addresses.h"
#include "launcher/agent.h"
#include "launcher/command_line.h"
#include "launcher/machine.h"
#include "launcher/job_hosts.h"
#include "launcher/process.h"
#include "launcher/started_place.h"
#include "launcher/verbs/engine_verb.h"
#include "launcher/verbs/preflight.h"
#include "launcher/verbs/run.h"

namespace ds {
namespace {

Surroundings read_surroundings() {
  Surroundings out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    out.environment.emplace_back(*entry);
  }
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  out.own_program = self.string();
  // Tests put their own rank program here.
  const char* const program = std::getenv("DSLAUNCH_RANKD");
  out.rank_program = program != nullptr ? program : installed_engine(self);
  out.visible_gpus = std::getenv("CUDA_VISIBLE_DEVICES");
  const char* const no_colour = std::getenv("NO_COLOR");
  out.no_colour = no_colour != nullptr && *no_colour != '\0';
  return out;
}

// By which address this host was reached: sshd says it ("CLIENT PORT SERVER PORT"), and Slurm says where
// we were started from. Empty where nobody does.
std::string own_address() {
  const char* const by_ssh = std::getenv("SSH_CONNECTION");
  const char* const by_slurm = std::getenv("SLURM_LAUNCH_NODE_IPADDR");
  if (by_slurm != nullptr) {
    return local_address_towards(by_slurm);
  }
  std::istringstream words(by_ssh != nullptr ? by_ssh : "");
  std::string client;
  std::string port;
  std::string server;
  words >> client >> port >> server;
  return server;
}

// One function per kind of command line.
struct Dispatch {
  const Surroundings& surroundings;

  int operator()(const RunOptions& options) const { return run_training_job(options, surroundings); }
  int operator()(const PreflightOptions& options) const { return run_preflight(options, surroundings); }
  int operator()(AgentOptions) const {
    return run_agent({surroundings.environment, own_address(),
                      this_machine(surroundings.visible_gpus).gpus,
                      !discover_start(as_environment(surroundings.environment))});
  }
  int operator()(const WatchCommand& command) const { return run_watch(command); }
  int operator()(const EngineVerb& verb) const { become_engine(verb, surroundings); }
  int operator()(const CheckOptions& options) const { return run_check(options); }
  int operator()(const ExplainOptions& options) const { return run_explain(options); }
  int operator()(const ElasticVerbOptions& options) const { return run_elastic(options); }
  int operator()(SchemaForm form) const { return run_schema(form); }
  int operator()(const InfoText& info) const {
    fmt::print("{}", info.text);
    return 0;
  }
};

// One of many that mpirun or srun has started, and not the one that speaks for them.
bool stands_behind_another(const Surroundings& surroundings) {
  try {
    const auto place = discover_start(as_environment(surroundings.environment));
    return place && !place->is_launcher();
  } catch (const UsageError&) {
    return false;
  }
}

void wipe_what_openssl_frees() {
  const bool ours = CRYPTO_set_mem_functions(&WipingMemory::allocate, &WipingMemory::resize,
                                             &WipingMemory::release) == 1;
  DS_CHECK(ours, "dslaunch: OpenSSL had memory before we began");
}

int run(int argc, char** argv) {
  const Surroundings surroundings = read_surroundings();
  CommandLine command;
  try {
    command = parse_command_line({argv + 1, argv + argc});
  } catch (const Error& error) {
    if (!stands_behind_another(surroundings)) throw;
    // The first one says it, and has to be heard before the starter ends all because of us.
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return static_cast<int>(error.exit_code());
  }
  const bool for_all = std::holds_alternative<RunOptions>(command) ||
                       std::holds_alternative<AgentOptions>(command);
  if (!for_all && stands_behind_another(surroundings)) return 0;
  return std::visit(Dispatch{surroundings}, command);
}

// Whoever's working directory was removed can be helped; every relative path fails there.
int end_by(const std::filesystem::filesystem_error& error) {
  std::error_code gone;
  static_cast<void>(std::filesystem::current_path(gone));
  if (!gone) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(ExitCode::kStorage);
  }
  fmt::print(stderr, "error: the working directory cannot be used ({}): it may have been removed; change to one that is "
                     "there\n", gone.message());
  return static_cast<int>(ExitCode::kInputMissing);
}

}  // namespace
}  // namespace ds

int main(int argc, char** argv) {
  ds::ensure_standard_descriptors();
  ::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error of the file that reaches it
  try {
    ds::wipe_what_openssl_frees();
    return ds::run(argc, argv);
  } catch (const ds::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::filesystem::filesystem_error& error) {
    return ds::end_by(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {} (this is a bug in dslaunch)\n", error.what());
    return static_cast<int>(ds::ExitCode::kInternal);
  }
}
