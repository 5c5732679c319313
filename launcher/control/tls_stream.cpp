#include "launcher/control/tls_stream.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/socket.h>

#include <array>

#include "core/status/error.h"
#include "core/text/secrecy.h"

namespace ds {
namespace {

void require_tls(bool done, const char* what) {
  if (!done) throw CommError(fmt::format("secure connection: OpenSSL did not take {}", what));
}

TlsStream::Context make_context(const SSL_METHOD* method) {
  TlsStream::Context context(SSL_CTX_new(method), SSL_CTX_free);
  require_tls(context && SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                  SSL_CTX_set_num_tickets(context.get(), 0) == 1,
              "the settings of a context");
  SSL_CTX_set_options(context.get(), SSL_OP_CLEANSE_PLAINTEXT);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return context;
}

template <class Object>
std::shared_ptr<Object> from_pem(const std::string& text,
                                 Object* (*read)(BIO*, Object**, pem_password_cb*, void*),
                                 void (*free)(Object*)) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bytes(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  return {bytes ? read(bytes.get(), nullptr, nullptr, nullptr) : nullptr, free};
}

}  // namespace

TlsStream::Context TlsStream::server_context(const TlsIdentity& identity) {
  Context context = make_context(TLS_server_method());
  const auto certificate = from_pem(identity.certificate, &PEM_read_bio_X509, &X509_free);
  const auto key = from_pem(identity.private_key, &PEM_read_bio_PrivateKey, &EVP_PKEY_free);
  require_tls(certificate && key &&
                  SSL_CTX_use_certificate(context.get(), certificate.get()) == 1 &&
                  SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1,
              "the launcher's certificate");
  return context;
}

TlsStream::Context TlsStream::client_context(const std::string& authority) {
  Context context = make_context(TLS_client_method());
  const auto certificate = from_pem(authority, &PEM_read_bio_X509, &X509_free);
  require_tls(certificate && X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()),
                                                 certificate.get()) == 1,
              "the certificate of the job's authority");
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  return context;
}

TlsStream::TlsStream(Fd connection, const Context& context)
    : connection_(std::move(connection)), ssl_(SSL_new(context.get())) {
  fcntl(connection_.get(), F_SETFL, fcntl(connection_.get(), F_GETFL) | O_NONBLOCK);
  const int on = 1;
  setsockopt(connection_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  require_tls(ssl_ && SSL_set_fd(ssl_.get(), connection_.get()) == 1, "a connection");
  SSL_set_accept_state(ssl_.get());
}

TlsStream::TlsStream(Fd connection, const Context& context, const std::string& server_name)
    : TlsStream(std::move(connection), context) {
  require_tls(SSL_set_tlsext_host_name(ssl_.get(), server_name.c_str()) == 1 &&
                  SSL_set1_host(ssl_.get(), server_name.c_str()) == 1,
              "the name of a server");
  SSL_set_connect_state(ssl_.get());
}

void TlsStream::add_poll_descriptors(std::vector<pollfd>& out) const {
  if (!problem_.empty()) return;
  const int events = wants_to_write_ ? POLLIN | POLLOUT : POLLIN;
  out.push_back({connection_.get(), static_cast<short>(events), 0});
}

void TlsStream::send(std::string_view bytes) {
  append_secret(waiting_, bytes);
  flush();
}

// Reading and writing shake hands first, and neither passes a byte before the certificate is good.
void TlsStream::flush() {
  wants_to_write_ = false;
  while (problem_.empty() && !waiting_.empty()) {
    ERR_clear_error();
    const int sent = SSL_write(ssl_.get(), waiting_.data(), static_cast<int>(waiting_.size()));
    if (sent <= 0) return take_result(sent);
    drop_front(waiting_, static_cast<size_t>(sent));
  }
}

bool TlsStream::pump(const Sink& sink) {
  flush();
  std::array<char, 16384> bytes{};
  while (problem_.empty()) {
    ERR_clear_error();
    const int got = SSL_read(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
    if (got <= 0) {
      take_result(got);
      break;
    }
    sink({bytes.data(), static_cast<size_t>(got)});
    wipe(bytes);
  }
  return problem_.empty();
}

// What is not done yet goes on when the kernel says so; everything else is the end.
void TlsStream::take_result(int result) {
  const int error = SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_WRITE) wants_to_write_ = true;
  if (error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ) return;
  wipe(waiting_);
  const long verdict = SSL_get_verify_result(ssl_.get());
  problem_ = verdict == X509_V_OK ? "it ended the connection"
                                  : fmt::format("its certificate is not of this job ({})",
                                                X509_verify_cert_error_string(verdict));
}

void TlsStream::close_output() {
  if (!problem_.empty() || (SSL_get_shutdown(ssl_.get()) & SSL_SENT_SHUTDOWN) != 0) return;
  wipe(waiting_);
  SSL_shutdown(ssl_.get());
  ::shutdown(connection_.get(), SHUT_WR);
}

// Also for the door, which has another descriptor of the connection.
void TlsStream::close() {
  close_output();
  wipe(waiting_);
  ::shutdown(connection_.get(), SHUT_RDWR);
  if (problem_.empty()) problem_ = "it was closed here";
}

}  // namespace ds
