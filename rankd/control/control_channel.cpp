#include "rankd/control/control_channel.h"

#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <mutex>

#include "core/status/error.h"
#include "core/text/secrecy.h"

namespace ds {
namespace {

constexpr std::string_view kInherited = "fd:";
constexpr std::chrono::seconds kConnectDeadline{20};
// A link that swallows everything is noticed after twice this, within the launcher's lease of 5 s.
constexpr int kKeepAliveMs = 2'000;

// gRPC says why a connection failed only in its log, which otherwise would show every try, and with
// GRPC_TRACE also tokens. The last error is kept for our own message.
class GrpcLog {
 public:
  static void capture() { gpr_set_log_function(&GrpcLog::take); }
  static std::string last_error() {
    const std::scoped_lock lock(mutex());
    return text();
  }

 private:
  static void take(gpr_log_func_args* entry) {
    if (entry->severity == GPR_LOG_SEVERITY_ERROR) {
      const std::scoped_lock lock(mutex());
      text() = entry->message;
    }
  }
  static std::mutex& mutex() {
    static std::mutex it;
    return it;
  }
  static std::string& text() {
    static auto* const it = new std::string;  // gRPC's threads outlive main()
    return *it;
  }
};

[[noreturn]] void throw_bad_address(const std::string& address) {
  throw UsageError(fmt::format("control connection: bad address '{}'", address));
}

std::shared_ptr<grpc::Channel> open_inherited(const std::string& address) {
  int fd = -1;
  const char* const end = address.data() + address.size();
  const auto parsed = std::from_chars(address.data() + kInherited.size(), end, fd);
  if (parsed.ec != std::errc() || parsed.ptr != end || fd < 0) {
    throw_bad_address(address);
  }
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomInsecureChannelFromFd("dslaunch", fd, arguments);
}

// gRPC's name for a literal "10.0.0.1:4242" or "[fd00::1]:4242", which no resolver is asked about.
std::string literal_target(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos ||
      address.find_first_not_of("0123456789abcdefABCDEF.:[]") != std::string::npos) {
    throw_bad_address(address);
  }
  return (address.starts_with('[') ? "ipv6:" : "ipv4:") + address;
}

std::shared_ptr<grpc::Channel> open_tls(const Bootstrap& bootstrap) {
  if (bootstrap.ca_certificate.empty() || bootstrap.certificate.empty() ||
      bootstrap.private_key.empty() || bootstrap.coordinator_name.empty()) {
    throw UsageError(
        fmt::format("control connection to {}: the bootstrap has no certificates or no name for it",
                    bootstrap.coordinator_address));
  }
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepAliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepAliveMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // as many as it takes
  // The launcher knows us by it from strangers, whom it may not hear just then, and has it in its
  // certificate.
  arguments.SetSslTargetNameOverride(bootstrap.coordinator_name);
  // The launcher may be slow to accept, or have no room for a moment.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = bootstrap.ca_certificate;
  options.pem_cert_chain = bootstrap.certificate;
  options.pem_private_key = bootstrap.private_key;
  const auto credentials = grpc::SslCredentials(options);
  wipe(options.pem_private_key);
  return grpc::CreateCustomChannel(literal_target(bootstrap.coordinator_address), credentials,
                                   arguments);
}

}  // namespace

std::shared_ptr<grpc::Channel> open_control_channel(const Bootstrap& bootstrap) {
  GrpcLog::capture();
  const std::string& address = bootstrap.coordinator_address;
  return address.starts_with(kInherited) ? open_inherited(address) : open_tls(bootstrap);
}

void await_launcher(grpc::Channel& channel, const Bootstrap& bootstrap) {
  const bool inherited = bootstrap.coordinator_address.starts_with(kInherited);
  // Before the launcher takes us for one that hangs: we know better why we have not joined.
  const std::chrono::milliseconds longest =
      std::min<std::chrono::milliseconds>(kConnectDeadline, bootstrap.join_timeout * 2 / 3);
  if (!inherited && !channel.WaitForConnected(std::chrono::system_clock::now() + longest)) {
    const std::string why = GrpcLog::last_error();
    throw Error(
        ExitCode::kClusterUnusable,
        fmt::format("join: rank {} got no secure connection to the launcher at {} within "
                    "{:.0f} s ({}); a firewall between the hosts, or clocks more than a day apart?",
                    bootstrap.rank, bootstrap.coordinator_address,
                    std::chrono::duration<double>(longest).count(),
                    why.empty() ? "no answer" : why));
  }
}

}  // namespace ds
