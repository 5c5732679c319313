#include "launcher/show/metrics_endpoint.h"

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/socket_address.h"
#include "launcher/control/peer_dial.h"

namespace ds {
namespace {

constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kPlain = "text/plain; charset=utf-8";

SocketAddress parse(const std::string& where) {
  const std::optional<SocketAddress> address = parse_endpoint(where);
  if (!address || address->is_wildcard() || address->is_group() || address->is_mapped_v4() ||
      address->is_link_local()) {
    throw UsageError(
        fmt::format("--metrics-listen '{}': expected the literal address of one interface and a "
                    "port, such as 127.0.0.1:9400",
                    where));
  }
  return *address;
}

Fd listen_at(const std::string& where) {
  constexpr int kBacklog = 16;
  Fd listener = listening_socket(parse(where), kBacklog);
  if (!listener.valid()) {
    throw Error(ExitCode::kClusterUnusable,
                fmt::format("--metrics-listen {}: {}", where, std::strerror(errno)));
  }
  return listener;
}

std::string http_text(std::string_view status, std::string_view type, std::string_view body,
                      bool with_body, std::string_view more = "") {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n{}",
      status, type, body.size(), more, with_body ? body : "");
}

std::string refusal(std::string_view status, std::string_view more = "") {
  return http_text(status, kPlain, fmt::format("{}\n", status), true, more);
}

}  // namespace

std::optional<std::string> http_reply(std::string_view so_far, bool full,
                                      const MetricsText& metrics) {
  if (full) return refusal("431 Request Header Fields Too Large");
  if (so_far.find("\r\n\r\n") == std::string_view::npos &&
      so_far.find("\n\n") == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view line = so_far.substr(0, so_far.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t first = line.find(' ');
  const size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  if (second == std::string_view::npos || !line.substr(second + 1).starts_with("HTTP/1.")) {
    return refusal("400 Bad Request");
  }
  const std::string_view method = line.substr(0, first);
  std::string_view path = line.substr(first + 1, second - first - 1);
  path = path.substr(0, path.find('?'));
  if (method != "GET" && method != "HEAD")
    return refusal("405 Method Not Allowed", "Allow: GET, HEAD\r\n");
  const bool with_body = method == "GET";
  if (path == "/metrics") return http_text("200 OK", kMetricsType, metrics(), with_body);
  if (path == "/healthz") return http_text("200 OK", kPlain, "ok\n", with_body);
  return http_text("404 Not Found", kPlain, "here are /metrics and /healthz\n", with_body);
}

MetricsEndpoint::MetricsEndpoint(const std::string& where)
    : server_(listen_at(where), {.connections = 8, .request_bytes = 8 << 10}, {}) {}

void MetricsEndpoint::check(const std::string& where) { parse(where); }

void MetricsEndpoint::serve(Time now, const MetricsText& metrics) {
  server_.serve(
      now, [&](std::string_view so_far, bool full) { return http_reply(so_far, full, metrics); });
}

}  // namespace ds
