// A rank's end waits until the launcher's loop has taken it: here that loop is the test's thread.
#pragma once

#include <poll.h>

#include <atomic>
#include <string>
#include <thread>

#include "rankd/control/control_client.h"

namespace ds {

// `pump`: takes the coordinator's events and keeps them for later.
template <class Pump>
bool finish_while(const Pump& pump, ControlClient& client, ExitCode code, ErrorOrigin origin,
                  const std::string& error = "") {
  bool told = false;
  std::atomic<bool> done = false;
  std::thread rank_thread([&] {
    told = client.finish(code, origin, error);
    done = true;
  });
  while (!done) pump();
  rank_thread.join();
  return told;
}

}  // namespace ds
