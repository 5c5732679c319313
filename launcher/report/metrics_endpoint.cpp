#include "launcher/report/metrics_endpoint.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "core/status/error.h"
#include "core/text/socket_address.h"
#include "launcher/control/peer_dial.h"

namespace ds {
namespace {

using Rest = RequestServer::Rest;

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

// Words of letters and a few signs: methods and names of headers (RFC 9110, 5.6.2).
bool is_token(std::string_view text) {
  constexpr std::string_view kSigns = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           kSigns.find(c) != std::string_view::npos;
  });
}

bool has_control(std::string_view text) {
  return std::ranges::any_of(text,
                             [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7F; });
}

struct RequestLine {
  std::string_view method;
  std::string_view path;  // without what is behind its question mark
};

// Splits a request line into its three words; returns nothing if it is not of HTTP 1.
std::optional<RequestLine> request_line(std::string_view line) {
  const size_t first = line.find(' ');
  const size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  if (second == std::string_view::npos || has_control(line)) return std::nullopt;
  const std::string_view method = line.substr(0, first);
  std::string_view path = line.substr(first + 1, second - first - 1);
  const std::string_view version = line.substr(second + 1);
  constexpr std::string_view kHttp = "http://";  // as proxies are asked, and servers have to take
  if (path.starts_with(kHttp)) {
    const size_t slash = path.find('/', kHttp.size());
    path = slash == std::string_view::npos ? "/" : path.substr(slash);
  }
  const bool is_http = version == "HTTP/1.1" || version == "HTTP/1.0";
  if (!is_token(method) || !is_http || (!path.starts_with('/') && path != "*")) return std::nullopt;
  return RequestLine{method, path.substr(0, path.find('?'))};
}

// The next of the lines, off `rest`; nothing where it has no end yet.
std::optional<std::string_view> take_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool is_header(std::string_view line) {
  const size_t colon = line.find(':');
  return colon != std::string_view::npos && is_token(line.substr(0, colon)) &&
         !has_control(line.substr(colon));
}

std::string reply_to(const RequestLine& request, const MetricsText& metrics) {
  if (request.method != "GET" && request.method != "HEAD")
    return refusal("405 Method Not Allowed", "Allow: GET, HEAD\r\n");
  const bool with_body = request.method == "GET";
  if (request.path == "/metrics") return http_text("200 OK", kMetricsType, metrics(), with_body);
  if (request.path == "/healthz") return http_text("200 OK", kPlain, "ok\n", with_body);
  return http_text("404 Not Found", kPlain, "here are /metrics and /healthz\n", with_body);
}

// To a request that is not whole.
std::optional<std::string> unfinished(std::string_view so_far, Rest rest) {
  // A request line begins with a letter: whoever speaks TLS here need not wait for an answer.
  const bool may_be_http = so_far.empty() || is_token(so_far.substr(0, 1));
  switch (rest) {
    case Rest::kMayCome:
      return may_be_http ? std::nullopt : std::optional(refusal("400 Bad Request"));
    case Rest::kTooLong:
      return refusal("431 Request Header Fields Too Large");
    case Rest::kEnded:
      return so_far.empty() ? std::nullopt : std::optional(refusal("400 Bad Request"));
    case Rest::kTooLate:
      break;
  }
  return refusal("408 Request Timeout");
}

}  // namespace

std::optional<std::string> http_reply(std::string_view so_far, Rest rest,
                                      const MetricsText& metrics) {
  std::string_view left = so_far;
  const std::optional<std::string_view> first = take_line(left);
  if (!first) return unfinished(so_far, rest);
  const std::optional<RequestLine> request = request_line(*first);
  if (!request) return refusal("400 Bad Request");
  while (const std::optional<std::string_view> line = take_line(left)) {
    if (line->empty()) return reply_to(*request, metrics);
    if (!is_header(*line)) return refusal("400 Bad Request");
  }
  return unfinished(so_far, rest);
}

MetricsEndpoint::MetricsEndpoint(const std::string& where)
    : server_(listen_at(where), {.connections = 8, .request_bytes = 8 << 10}, {}) {}

void MetricsEndpoint::check(const std::string& where) { parse(where); }

void MetricsEndpoint::serve(Time now, const MetricsText& metrics) {
  server_.serve(
      now, [&](std::string_view so_far, Rest rest) { return http_reply(so_far, rest, metrics); });
}

}  // namespace ds
