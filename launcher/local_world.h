// The ranks of this machine as processes: started all at once, each with its orders on standard input,
// its log file as standard output and a pipe for what the user should see.
#pragma once

#include <poll.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/process.h"
#include "launcher/run_directory.h"

namespace ds {

// Cuts a byte stream into lines. A line longer than the limit comes in pieces.
class LineBuffer {
 public:
  using Sink = std::function<void(std::string_view line)>;
  void feed(std::string_view bytes, const Sink& sink);
  void finish(const Sink& sink);  // what is left without a newline

 private:
  std::string rest_;
};

class LocalWorld {
 public:
  struct Options {
    std::string program;
    std::vector<std::string> environment;
    std::vector<std::string> tokens;  // one per rank
    int64_t epoch = 1;
    std::string config_digest;
  };
  using RankSink = std::function<void(int rank, std::string_view line)>;

  // Starts every rank. Must come before gRPC's first thread. Throws InputMissing, IoError.
  LocalWorld(const Options& options, const RunDirectory& directory);

  int size() const { return static_cast<int>(ranks_.size()); }
  int pid(int rank) const { return at(rank).process.pid(); }
  Fd take_connection(int rank);  // our end of the rank's control socket

  // What to poll for: the ends of processes, and their output.
  void add_poll_descriptors(std::vector<pollfd>& out) const;
  // Reads what there is; each line goes to the rank's log and to `sink`.
  void pump(const RankSink& sink);
  // The rank's end the first time it is seen, after its last output was pumped.
  std::optional<ExitStatus> newly_ended(int rank, const RankSink& sink);
  void kill_all();

 private:
  struct Rank {
    Process process;
    Fd orders;  // its standard input; closing it tells the rank that we are gone
    Fd connection;
    Fd output;
    AppendFile log;
    LineBuffer lines;
    bool reported = false;
  };
  const Rank& at(int rank) const { return ranks_.at(static_cast<size_t>(rank)); }
  Rank start(int rank, const Options& options, const RunDirectory& directory);
  static void pump_one(int number, Rank& rank, const RankSink& sink);

  std::vector<Rank> ranks_;
};

}  // namespace ds
