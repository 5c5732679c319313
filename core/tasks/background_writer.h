// Writes for somebody who must never wait for a disk, a pipe or a terminal: jobs are carried out by
// a thread of its own, in order within their lane. A job that fails is tried again until it
// succeeds, while other lanes go on; one that hangs holds up this writer's jobs and nobody else.
// What waits is bounded: beyond that, jobs are dropped and counted.
//
// Thread-safe. Whoever gives a job lets it own what it touches: a job that hangs outlives the
// writer.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ds {

class BackgroundWriter {
 public:
  // Throws Error if it cannot be done now; it has to go on where it stopped when it is called
  // again.
  using Job = std::function<void()>;
  using Time = std::chrono::nanoseconds;
  struct Lane {
    size_t index = 0;
  };
  struct Options {
    Time retry = std::chrono::seconds(1);
  };

  explicit BackgroundWriter(const Options& options);
  BackgroundWriter() : BackgroundWriter(Options{}) {}
  BackgroundWriter(const BackgroundWriter&) = delete;  // owns a thread
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;
  ~BackgroundWriter();  // drops what waits; what hangs is left to itself

  // `name`: what is written there, for people. At most so many bytes may wait in it.
  Lane add_lane(std::string name, size_t most_bytes);
  // False: too much waits in the lane. The job is dropped, and counted.
  bool post(Lane lane, size_t bytes, Job job);

  size_t waiting(Lane lane) const;  // jobs, the running one among them

  // The job that is under way, by the name of its lane, and since when (steady clock).
  struct Running {
    std::string name;
    Time since{};
  };
  std::optional<Running> running() const;

  // What has changed in a lane since the last call.
  struct Change {
    std::string name;
    std::string error;    // why it fails now; empty: it works again
    int64_t dropped = 0;  // since the last change
  };
  std::vector<Change> take_changes();

  // Waits until everything is done, but not longer than this without any progress. What is left
  // then is dropped.
  struct Left {
    std::string name;
    size_t jobs = 0;
    std::string error;  // why; empty: it hangs
  };
  std::vector<Left> finish(Time longest_standstill);

 private:
  struct State;
  const std::shared_ptr<State> state_;  // the thread's, too
};

}  // namespace ds
