#include "launcher/control/control_tls.h"

#include <grpc/grpc_security_constants.h>
#include <grpc/support/log.h>
#include <openssl/conf.h>
#include <openssl/ssl.h>

#include "core/status/error.h"
#include "core/text/secrecy.h"

namespace ds {
namespace {

// gRPC 1.51 has no public switch for the lowest TLS version and itself asks for 1.2. OpenSSL's own
// defaults for every context of the process, which otherwise come from openssl.cnf, go on top of
// that.
void allow_only_tls_1_3() {
  static constexpr char kDefaults[] =
      "dslaunch = modules\n"
      "[modules]\n"
      "ssl_conf = ssl\n"
      "[ssl]\n"
      "system_default = tls\n"
      "[tls]\n"
      "Protocol = -TLSv1, -TLSv1.1, -TLSv1.2\n";
  OPENSSL_init_ssl(0, nullptr);  // reads openssl.cnf, which must not come after ours
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(BIO_new_mem_buf(kDefaults, -1), BIO_free);
  const std::unique_ptr<CONF, decltype(&NCONF_free)> parsed(NCONF_new(nullptr), NCONF_free);
  long line = 0;
  const bool done = text && parsed && NCONF_load_bio(parsed.get(), text.get(), &line) == 1 &&
                    CONF_modules_load(parsed.get(), "dslaunch", 0) == 1;
  DS_CHECK(done, "coordinator: OpenSSL did not take its defaults");
}

bool has_value(const grpc::AuthContext& connection, const char* property,
               const std::string& value) {
  const std::vector<grpc::string_ref> values = connection.FindPropertyValues(property);
  return values.size() == 1 && values.front() == value;
}

}  // namespace

std::shared_ptr<grpc::ServerCredentials> coordinator_credentials(
    const JobAuthority& authority, const std::vector<std::string>& addresses,
    const std::string& name) {
  allow_only_tls_1_3();
  // Strangers must not be able to fill the user's terminal, nor a trace to show tokens.
  gpr_set_log_function([](gpr_log_func_args*) {});
  const TlsIdentity identity = authority.certify_coordinator(addresses, name);
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = authority.certificate();
  options.pem_key_cert_pairs.push_back({identity.private_key, identity.certificate});
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::SslServerCredentials(options);
  wipe(options.pem_key_cert_pairs.front().private_key);
  return credentials;
}

bool certified_as(const grpc::AuthContext& connection, const std::string& job, int64_t epoch,
                  int rank) {
  return has_value(connection, GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME,
                   GRPC_SSL_TRANSPORT_SECURITY_TYPE) &&
         has_value(connection, GRPC_X509_SAN_PROPERTY_NAME, rank_uri(job, epoch, rank));
}

bool came_by_network(const grpc::CallbackServerContext& context) {
  const std::string peer = context.peer();
  return peer.starts_with("ipv4:") || peer.starts_with("ipv6:") ||
         has_value(*context.auth_context(), GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME,
                   GRPC_SSL_TRANSPORT_SECURITY_TYPE);
}

}  // namespace ds
