// A TLS 1.3 connection by which an agent that dialled speaks with its launcher. The launcher's end
// proves itself with a certificate of the job's authority; the agent's end needs none, and has to
// prove itself by what it says. No thread: whoever holds it polls it. What passes through is
// overwritten in the buffers of OpenSSL too, which is why the orders of ranks go this way and not
// through gRPC.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "launcher/control/byte_channel.h"
#include "launcher/control/job_authority.h"

namespace ds {

class TlsStream final : public ByteChannel {
 public:
  using Context = std::shared_ptr<SSL_CTX>;
  // The launcher's, for all its connections; the agent's, which believes this authority alone.
  // Throws CommError for what are no certificates.
  static Context server_context(const TlsIdentity& identity);
  static Context client_context(const std::string& authority);

  // `connection` is one of TCP. The agent's end names the server that it wants.
  TlsStream(Fd connection, const Context& context);
  TlsStream(Fd connection, const Context& context, const std::string& server_name);
  ~TlsStream() override { close(); }

  void add_poll_descriptors(std::vector<pollfd>& out) const override;
  void send(std::string_view bytes) override;
  size_t waiting() const override { return waiting_.size(); }
  bool pump(const Sink& sink) override;
  void close_output() override;
  void close() override;
  // Why the other side is not believed, or that it is gone; empty while neither is so.
  const std::string& problem() const { return problem_; }

 private:
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  void flush();
  void take_result(int result);

  const Fd connection_;
  const std::unique_ptr<SSL, Free> ssl_;
  std::string waiting_;
  bool wants_to_write_ = false;  // as soon as the kernel takes more
  std::string problem_;
};

}  // namespace ds
