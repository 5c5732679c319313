// Bytes between the launcher and one agent, whatever carries them: here the pipes of a command,
// over a network tls_stream.h. Nothing waits; whoever holds one polls it. Refuses to know
// what is said.
#pragma once

#include <poll.h>

#include <functional>
#include <string_view>
#include <vector>

#include "core/files/file.h"
#include "launcher/process/send_queue.h"

namespace ds {

class ByteChannel {
 public:
  using Sink = std::function<void(std::string_view bytes)>;

  ByteChannel() = default;
  ByteChannel(const ByteChannel&) = delete;  // owns descriptors
  ByteChannel& operator=(const ByteChannel&) = delete;
  virtual ~ByteChannel() = default;

  virtual void add_poll_descriptors(std::vector<pollfd>& out) const = 0;
  // Goes as soon as it can, in pump() if not at once.
  virtual void send(std::string_view bytes) = 0;
  virtual size_t waiting() const = 0;  // bytes that have not gone yet; none once nobody reads
  // Writes and reads what goes, and overwrites what it read once `sink` has seen it. False when one
  // of the directions has ended.
  virtual bool pump(const Sink& sink) = 0;
  // Nothing more is sent; what still comes is heard.
  virtual void close_output() = 0;
  virtual void close() = 0;
};

class PipeChannel final : public ByteChannel {
 public:
  PipeChannel(Fd input, Fd output);  // both become non-blocking

  void add_poll_descriptors(std::vector<pollfd>& out) const override;
  void send(std::string_view bytes) override;
  size_t waiting() const override { return output_.waiting(); }
  bool pump(const Sink& sink) override;
  void close_output() override { output_.close(); }
  void close() override;

 private:
  Fd input_;
  SendQueue output_;
};

}  // namespace ds
