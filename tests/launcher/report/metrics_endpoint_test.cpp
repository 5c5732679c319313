// What is answered over HTTP, and where. Time is an argument, so nothing waits.
#include "launcher/report/metrics_endpoint.h"

#include <array>

#include "core/status/error.h"
#include "core/text/socket_address.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Rest = RequestServer::Rest;
using std::chrono::seconds;

std::string figures() { return "dslaunch_up 1\n"; }

std::string reply_to(std::string_view request) {
  return http_reply(request, Rest::kMayCome, figures).value_or("more");
}

std::string free_endpoint() {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress any = *parse_address("127.0.0.1", 0);
  REQUIRE(bind(socket.get(), any.get(), any.bytes) == 0);
  return own_address(socket.get()).endpoint();
}

Fd dial(const std::string& endpoint) {
  const SocketAddress to = *parse_endpoint(endpoint);
  Fd socket(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(connect(socket.get(), to.get(), to.bytes) == 0);
  return socket;
}

std::string all_from(const Fd& socket) {
  std::string text;
  std::array<char, 4096> bytes{};
  for (ssize_t got = 0; (got = recv(socket.get(), bytes.data(), bytes.size(), 0)) > 0;) {
    text.append(bytes.data(), static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

TEST_CASE("figures and health are served, nothing else", "[launcher]") {
  CHECK(reply_to("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") ==
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; "
        "charset=utf-8\r\nContent-Length: 14\r\n"
        "Connection: close\r\n\r\ndslaunch_up 1\n");
  CHECK_THAT(reply_to("GET /metrics?all=1 HTTP/1.0\n\n"), Catch::EndsWith("dslaunch_up 1\n"));
  CHECK_THAT(reply_to("GET /healthz HTTP/1.1\r\n\r\n"), Catch::EndsWith("\r\n\r\nok\n"));
  const std::string head = reply_to("HEAD /metrics HTTP/1.1\r\n\r\n");
  CHECK_THAT(head, Catch::Contains("Content-Length: 14\r\n") && Catch::EndsWith("\r\n\r\n"));
  CHECK_THAT(reply_to("GET /run HTTP/1.1\r\n\r\n"), Catch::StartsWith("HTTP/1.1 404 "));
  CHECK_THAT(reply_to("POST /metrics HTTP/1.1\r\nContent-Length: 1\r\n\r\nx"),
             Catch::StartsWith("HTTP/1.1 405 ") && Catch::Contains("Allow: GET, HEAD\r\n"));
}

TEST_CASE("what is no HTTP is refused, what is unfinished is waited for, what is too long is not",
          "[launcher]") {
  for (const char* request :
       {"\r\n\r\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n", "GET /metrics SMTP\r\n\r\n",
        "{\"verb\": \"stop\"}\n\n",
        // as soon as it shows
        "garbage\r\n", "GET /metrics\r\n", "\x16\x03\x01\x02", "{\"verb\"",
        "GET /metrics HTTP/1.1 x\r\n", "GET metrics HTTP/1.1\r\n", "GET /metrics HTTP/2.0\r\n",
        "GET /metrics HTTP/1.12\r\n", "G(T /metrics HTTP/1.1\r\n", "GET /\x01 HTTP/1.1\r\n",
        "GET /metrics HTTP/1.1\r\nno header\r\n", "GET /metrics HTTP/1.1\r\nHost : x\r\n",
        "GET /metrics HTTP/1.1\r\n: x\r\n", "GET /metrics HTTP/1.1\r\nHost: \x1b\r\n"}) {
    CAPTURE(request);
    CHECK_THAT(reply_to(request), Catch::StartsWith("HTTP/1.1 400 "));
  }
  CHECK(reply_to("") == "more");
  CHECK(reply_to("GE") == "more");
  CHECK(reply_to("GET /metrics HTTP/1.1\r\nHos") == "more");
  CHECK(reply_to("POST /metrics HTTP/1.1\r\n") == "more");
  CHECK(reply_to("GET /metrics HTTP/1.1\r\nHost: x\r\n") == "more");
  CHECK_THAT(http_reply("GET /", Rest::kTooLong, figures).value_or(""),
             Catch::StartsWith("HTTP/1.1 431 "));
}

TEST_CASE("who ends or lets pass time in the middle of a request is told so", "[launcher]") {
  for (const char* request :
       {"G", "GET /metrics HTTP/1.1\r\n", "GET /metrics HTTP/1.1\r\nHost: x"}) {
    CAPTURE(request);
    CHECK_THAT(http_reply(request, Rest::kEnded, figures).value_or(""),
               Catch::StartsWith("HTTP/1.1 400 "));
    CHECK_THAT(http_reply(request, Rest::kTooLate, figures).value_or(""),
               Catch::StartsWith("HTTP/1.1 408 "));
  }
  CHECK_FALSE(http_reply("", Rest::kEnded, figures));  // it only looked whether somebody listens
  CHECK_THAT(http_reply("", Rest::kTooLate, figures).value_or(""),
             Catch::StartsWith("HTTP/1.1 408 "));
}

TEST_CASE("a request as proxies write it is one", "[launcher]") {
  CHECK_THAT(reply_to("GET http://host:9400/metrics?a HTTP/1.1\r\nHost: host\r\n\r\n"),
             Catch::EndsWith("dslaunch_up 1\n"));
  CHECK_THAT(reply_to("GET http://host HTTP/1.1\r\n\r\n"), Catch::StartsWith("HTTP/1.1 404 "));
  CHECK_THAT(reply_to("OPTIONS * HTTP/1.1\r\n\r\n"), Catch::StartsWith("HTTP/1.1 405 "));
}

TEST_CASE("a caller is answered however its request arrives, and a slow one is dropped",
          "[launcher]") {
  const std::string where = free_endpoint();
  MetricsEndpoint endpoint(where);
  const Fd caller = dial(where), slow = dial(where), rude = dial(where);
  REQUIRE(send(caller.get(), "GET /metr", 9, MSG_NOSIGNAL) == 9);
  REQUIRE(send(slow.get(), "G", 1, MSG_NOSIGNAL) == 1);
  const std::string flood(20000, 'x');
  REQUIRE(send(rude.get(), flood.data(), flood.size(), MSG_NOSIGNAL) == 20000);
  endpoint.serve(seconds(1), figures);
  REQUIRE(send(caller.get(), "ics HTTP/1.1\r\n\r\n", 16, MSG_NOSIGNAL) == 16);
  endpoint.serve(seconds(2), figures);
  CHECK_THAT(all_from(caller), Catch::EndsWith("dslaunch_up 1\n"));
  endpoint.serve(seconds(7), figures);
  CHECK_THAT(all_from(slow), Catch::StartsWith("HTTP/1.1 408 "));
  CHECK_THAT(all_from(rude), Catch::StartsWith("HTTP/1.1 431 ") && Catch::EndsWith("Large\n"));
}

TEST_CASE("metrics are served on one literal address that nobody else uses", "[launcher]") {
  for (const char* where :
       {"", "9400", "localhost:9400", "127.0.0.1", "127.0.0.1:0", "0.0.0.0:9400", "[::]:9400",
        "[fe80::1]:9400", "224.0.0.1:9400", "[::ffff:127.0.0.1]:9400", ":9400"}) {
    CAPTURE(where);
    CHECK_THROWS_AS(MetricsEndpoint::check(where), UsageError);
  }
  const std::string where = free_endpoint();
  const MetricsEndpoint first(where);
  try {
    const MetricsEndpoint second(where);
    FAIL("two listen there");
  } catch (const Error& error) {
    CHECK(error.exit_code() == ExitCode::kClusterUnusable);
    CHECK_THAT(error.what(), Catch::Contains("Address already in use"));
  }
}

}  // namespace ds
