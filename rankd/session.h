// The frame around training as one rank: take the bootstrap from standard input, die with the
// launcher, join, run, and report how it ended. Refuses to know what training is.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "rankd/control_client.h"
#include "train/job.h"

namespace ds {

class TcpListener;  // of comm/tcp/comm.h

// What the launcher writes on a rank's standard input (proto/control.proto).
struct Bootstrap {
  std::string coordinator_address;  // "fd:<n>" (an inherited connected socket) or "10.0.0.1:4242"
  std::string token;
  int rank = 0;
  int world_size = 1;
  int64_t epoch = 1;
  std::string run_dir;
  int64_t launcher_pid = 0;  // 0 where the parent is not the launcher
  std::string config_digest;
  // Where the coordinator is an address (PEM).
  std::string ca_certificate;
  std::string certificate;
  std::string private_key;
  std::string coordinator_name;  // what its certificate has to say, and by what it knows us from strangers
  std::string data_address;  // where to listen for the other ranks' data; empty: nowhere
  int memory_fd = -1;        // what the host keeps states in, inherited; -1: nothing

  ~Bootstrap();  // wipes what is secret
};
void wipe_secrets(Bootstrap& bootstrap);

// Reads one length-prefixed Bootstrap from `fd`. Throws UsageError if it is not one (someone typed the
// command by hand), CommError if it is not complete after 30 s.
Bootstrap read_bootstrap(int fd);

// Opens the control connection; nothing is sent before join(). `lost` is called, by a thread of the
// connection, when the launcher's end of it goes before finish(). `data_endpoint` is where this rank
// listens for data, empty where it does not.
std::unique_ptr<ControlClient> connect_control(const Bootstrap& bootstrap,
                                               std::function<void()> lost = {},
                                               const std::string& data_endpoint = "");

// The kernel ends this process as soon as that one, its parent, is gone; 0: nothing is done. CommError where it is gone
// already.
void die_with_launcher(int64_t launcher_pid);

// May take the listener, which listens if the bootstrap said where.
using Training = std::function<int(const JobPlan&, ControlClient&, TcpListener&)>;

// The whole life of a rank started by dslaunch. Returns the exit code of the process. `failpoints`: as in
// core/failpoint.h, empty for none.
int run_session(const Training& training, const std::string& failpoints = "");

}  // namespace ds
