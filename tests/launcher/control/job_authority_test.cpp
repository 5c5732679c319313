#include "launcher/control/job_authority.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "tests/support/catch.h"

namespace ds {
namespace {

using X509Ptr = std::unique_ptr<X509, decltype(&X509_free)>;

X509Ptr parse(const std::string& pem) {
  BIO* const text = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  X509Ptr certificate(PEM_read_bio_X509(text, nullptr, nullptr, nullptr), X509_free);
  BIO_free(text);
  REQUIRE(certificate != nullptr);
  return certificate;
}

// What OpenSSL says of `leaf` under `root` at a time: X509_V_OK or why not.
int verify(const std::string& leaf, const std::string& root, int purpose, std::time_t at) {
  const X509Ptr certificate = parse(leaf);
  const X509Ptr authority = parse(root);
  X509_STORE* const store = X509_STORE_new();
  X509_STORE_add_cert(store, authority.get());
  X509_STORE_CTX* const context = X509_STORE_CTX_new();
  X509_STORE_CTX_init(context, store, certificate.get(), nullptr);
  X509_STORE_CTX_set_purpose(context, purpose);
  X509_STORE_CTX_set_time(context, 0, at);
  X509_verify_cert(context);
  const int verdict = X509_STORE_CTX_get_error(context);
  X509_STORE_CTX_free(context);
  X509_STORE_free(store);
  return verdict;
}

constexpr std::time_t kNow = 1'800'000'000;
constexpr std::time_t kDay = 86'400;

JobAuthority authority_at(std::time_t now, std::chrono::seconds limit) {
  return JobAuthority(JobAuthority::WallClock::from_time_t(now), limit);
}

}  // namespace

TEST_CASE("certificates hold for their use, job and time", "[launcher][security]") {
  const JobAuthority ours = authority_at(kNow, std::chrono::hours(1));
  const JobAuthority theirs = authority_at(kNow, std::chrono::hours(1));
  CHECK(ours.job() != theirs.job());
  const std::string rank = ours.certify_rank(3, 1).certificate;
  const std::string server = ours.certify_coordinator({"10.0.0.1", "fd00::1"}).certificate;
  const std::string& root = ours.certificate();
  CHECK(verify(rank, root, X509_PURPOSE_SSL_CLIENT, kNow) == X509_V_OK);
  CHECK(verify(server, root, X509_PURPOSE_SSL_SERVER, kNow) == X509_V_OK);
  CHECK(verify(rank, root, X509_PURPOSE_SSL_SERVER, kNow) == X509_V_ERR_INVALID_PURPOSE);
  CHECK(verify(server, root, X509_PURPOSE_SSL_CLIENT, kNow) == X509_V_ERR_INVALID_PURPOSE);
  CHECK(verify(rank, theirs.certificate(), X509_PURPOSE_SSL_CLIENT, kNow) != X509_V_OK);

  const auto at = [&](std::time_t when) {
    return verify(rank, root, X509_PURPOSE_SSL_CLIENT, when);
  };
  CHECK(at(kNow - kDay + 60) == X509_V_OK);
  CHECK(at(kNow - kDay - 60) != X509_V_OK);
  CHECK(at(kNow + 3600 + kDay - 60) == X509_V_OK);
  CHECK(at(kNow + 3600 + kDay + 60) != X509_V_OK);

  CHECK(X509_check_ip_asc(parse(server).get(), "10.0.0.1", 0) == 1);
  CHECK(X509_check_ip_asc(parse(server).get(), "fd00:0::1", 0) == 1);
  CHECK(X509_check_ip_asc(parse(server).get(), "10.0.0.2", 0) == 0);
  const std::string named = ours.certify_coordinator({"10.0.0.1"}, "abc.invalid").certificate;
  CHECK(X509_check_ip_asc(parse(named).get(), "10.0.0.1", 0) == 1);
  CHECK(X509_check_host(parse(named).get(), "abc.invalid", 0, 0, nullptr) == 1);
  CHECK(X509_check_host(parse(named).get(), "abd.invalid", 0, 0, nullptr) == 0);
}

TEST_CASE("a rank certifies nobody, and no two keys are equal", "[launcher][security]") {
  const JobAuthority authority = authority_at(kNow, std::chrono::hours(1));
  const TlsIdentity one = authority.certify_rank(1, 0);
  const TlsIdentity two = authority.certify_rank(1, 0);
  CHECK(one.private_key != two.private_key);
  CHECK(one.certificate != two.certificate);
  CHECK(X509_check_ca(parse(one.certificate).get()) == 0);
  CHECK(X509_check_ca(parse(authority.certificate()).get()) == 1);
  CHECK(X509_get_extension_flags(parse(one.certificate).get()) & EXFLAG_KUSAGE);
  CHECK(authority.certificate().find("PRIVATE") == std::string::npos);
  CHECK(rank_uri("j", 2, 5) == "dslaunch:j/epoch/2/rank/5");
}

}  // namespace ds
