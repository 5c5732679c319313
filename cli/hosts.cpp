#include "cli/hosts.h"

#include "cli/number_checks.h"
#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {
namespace {

constexpr const char* kGroup = "Several hosts";

void describe_choice(VerbApp& app, HostOptions& hosts) {
  app.add_option(
         "-H,--hostfile", hosts.hostfile,
         "Lines 'HOST slots=N', or as PBS and MPI write them (default: /job/hostfile where it is, "
         "else this machine)")
      ->type_name("FILE")
      ->group(kGroup);
  app.add_option("-i,--include", hosts.include,
                 "HOST[:SLOT[,SLOT]][@HOST...] of the hostfile; without one, of localhost")
      ->group(kGroup);
  app.add_option("-e,--exclude", hosts.exclude, "The same, left out")->group(kGroup);
  app.add_option("--num-nodes,--num_nodes", hosts.num_nodes, "The first N hosts")
      ->check(count_check())
      ->type_name("N")
      ->group(kGroup);
  app.add_option("--num-gpus,--num_gpus,--num-accelerators,--num_accelerators", hosts.num_gpus,
                 "The first N slots of each host; without hosts, ranks of this machine")
      ->check(count_check())
      ->type_name("N")
      ->group(kGroup);
}

}  // namespace

void describe_hosts(VerbApp& app, HostOptions& hosts) {
  describe_choice(app, hosts);
  app.add_option("--launcher", hosts.launcher,
                 "local, ssh, mpi, slurm; auto: what hostfile and Slurm allocation suggest")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--launcher-args,--launcher_args", hosts.launcher_args,
                 "More words for ssh, mpirun or srun, such as --launcher-args='-F my_ssh_config'")
      ->group(kGroup);
  app.add_option("--ssh-port,--ssh_port", hosts.ssh_port, "Default: what ssh is configured for")
      ->check(whole_check(1, 65535))
      ->type_name("PORT")
      ->group(kGroup);
  app.add_option("--master-addr,--master_addr", hosts.master_addr,
                 "Address of this machine that the hosts reach (default: from the routes to them)")
      ->group(kGroup);
  app.add_option("--master-port,--master_port", hosts.master_port, "Default: any free one")
      ->check(whole_check(0, 65535))
      ->type_name("PORT")
      ->group(kGroup);
  app.add_option("--env", hosts.environment,
                 "NAME=VALUE, or NAME with its value here, for every rank")
      ->take_all()
      ->allow_extra_args(false)
      ->group(kGroup);
  app.add_option("--env-file,--env_file", hosts.environment_file,
                 "Lines NAME=VALUE (default: .deepspeed_env at home and here)")
      ->type_name("FILE")
      ->group(kGroup);
  app.add_option("--local-rank,--local_rank", hosts.local_rank,
                 "What DeepSpeed's launcher appends; its variables say the same")
      ->check(whole_check(0, 1 << 20))
      ->type_name("N")
      ->group(kGroup);
}

}  // namespace ds
