// What a rank is told before it can ask: where the launcher is, and what proves that they belong
// together. It comes over standard input, so that no secret stands in an argument list.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ds {

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
  // These three are PEM texts, and set if the coordinator is an address.
  std::string ca_certificate;
  std::string certificate;
  std::string private_key;
  // What its certificate has to say, and by what it knows us from strangers.
  std::string coordinator_name;
  std::string data_address;  // where to listen for the other ranks' data; empty: nowhere
  // How long the launcher waits for the slowest rank.
  std::chrono::milliseconds join_timeout = std::chrono::seconds(60);
  int memory_fd = -1;  // what the host keeps states in, inherited; -1: nothing

  ~Bootstrap();  // wipes what is secret
};
void wipe_secrets(Bootstrap& bootstrap);

// Reads one length-prefixed Bootstrap from `fd`. Throws UsageError if it is not one (someone typed
// the command by hand), CommError if it is not complete after 30 s,
// IoError if it cannot be read.
Bootstrap read_bootstrap(int fd);

}  // namespace ds
