// `--metrics-listen`: the figures of the run over HTTP, for Prometheus: GET /metrics, and GET
// /healthz for who only wants to know that dslaunch lives. Read-only and for everybody who reaches
// the address, so it is one that the user named, never a wildcard. Refuses to know the figures.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/control/request_server.h"

namespace ds {

using MetricsText = std::function<std::string()>;

// Pure: all of the reply to what has come so far, nothing while the head of the request is not
// complete. What is no request is refused as soon as that shows.
std::optional<std::string> http_reply(std::string_view so_far, RequestServer::Rest rest,
                                      const MetricsText& metrics);

class MetricsEndpoint {
 public:
  // "127.0.0.1:9400", "[fd00::1]:9400". Throws UsageError where that is no literal address of one
  // interface with a port, Error(kClusterUnusable) where nobody can listen there.
  explicit MetricsEndpoint(const std::string& where);
  // The part of it that needs no socket, for the command line. Throws UsageError.
  static void check(const std::string& where);

  void add_poll_descriptors(std::vector<pollfd>& out) const { server_.add_poll_descriptors(out); }
  void serve(Time now, const MetricsText& metrics);

 private:
  RequestServer server_;
};

}  // namespace ds
