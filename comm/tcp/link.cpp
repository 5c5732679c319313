#include "comm/tcp/link.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "comm/shm/segment.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::detail {
namespace {

constexpr size_t kStagingBytes = size_t{64} << 10;
constexpr size_t kReadBudget = size_t{4} << 20;     // per turn, so that every peer gets one
constexpr uint64_t kMostBytes = uint64_t{1} << 40;  // a payload beyond that is no payload
constexpr uint64_t kMostReasonBytes = 4096;
constexpr size_t kBatchedFrames = 16;  // frames per system call

}  // namespace

std::string frame_error(const Frame& frame) {
  if (frame.magic != Frame().magic || frame.zero != 0) return "no frame starts like that";
  switch (frame.kind) {
    case FrameKind::kData:
      return frame.bytes <= kMostBytes ? "" : "too long";
    case FrameKind::kMessage: {
      const bool known = frame.dtype <= DType::kI8;
      const bool sane = frame.numel >= 0 && static_cast<uint64_t>(frame.numel) <= kMostBytes;
      if (known && sane &&
          static_cast<uint64_t>(frame.numel) * size_of(frame.dtype) == frame.bytes &&
          frame.bytes <= kMostBytes) {
        return "";
      }
      return "a message of a wrong length";
    }
    case FrameKind::kTaken:
    case FrameKind::kLeft:
    case FrameKind::kProbe:
      return frame.bytes == 0 ? "" : "a payload where none belongs";
    case FrameKind::kFailed:
      return frame.bytes <= kMostReasonBytes ? "" : "too long";
  }
  return "an unknown kind";
}

TcpLink::TcpLink(Fd socket, int peer, FrameSink& sink)
    : socket_(std::move(socket)), peer_(peer), sink_(sink), staging_(kStagingBytes) {}

void TcpLink::close(const std::string& why) {
  if (!closed()) why_closed_ = why;
}

void TcpLink::push(Outgoing out) {
  if (closed() || write_broken_) return;
  bytes_queued_ += sizeof(Frame) + out.frame.bytes;
  const bool awaited = out.frame.kind != FrameKind::kLeft && out.frame.kind != FrameKind::kProbe;
  if (awaited) bytes_important_ = bytes_queued_;
  queue_.push_back(std::move(out));
}

void TcpLink::enqueue(const Frame& frame, const std::byte* data, SendTicket* ticket) {
  push({frame, data, ticket, 0, {}});
}

void TcpLink::enqueue_copy(const Frame& frame, const std::byte* data) {
  Outgoing out{frame, nullptr, nullptr, 0, {}};
  if (frame.bytes != 0) out.copy.assign(data, data + frame.bytes);
  out.data = out.copy.data();  // stays where it is when the vector moves
  push(std::move(out));
}

void TcpLink::disown(const SendTicket* ticket) {
  for (auto out = queue_.begin(); out != queue_.end();) {
    if (out->ticket != ticket) {
      ++out;
    } else if (out->done == 0) {
      bytes_queued_ -= sizeof(Frame) + out->frame.bytes;
      bytes_important_ = std::min(bytes_important_, bytes_queued_);
      out = queue_.erase(out);
    } else {
      out->copy.assign(out->data, out->data + out->frame.bytes);
      out->data = out->copy.data();
      out->ticket = nullptr;
      ++out;
    }
  }
}

void TcpLink::write_some() {
  while (wants_write()) {
    std::array<iovec, 2 * kBatchedFrames> parts;
    size_t count = 0;
    size_t total = 0;
    const auto add = [&](const void* data, size_t bytes, size_t done) {
      if (done >= bytes) return;
      parts[count++] = {static_cast<std::byte*>(const_cast<void*>(data)) + done, bytes - done};
      total += bytes - done;
    };
    for (size_t i = 0; i < std::min(queue_.size(), kBatchedFrames); ++i) {
      const Outgoing& out = queue_[i];
      add(&out.frame, sizeof(Frame), out.done);
      add(out.data, out.frame.bytes, out.done - std::min(out.done, sizeof(Frame)));
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return;
      write_broken_ = true;  // reading tells what became of the peer, after what it sent before
      return;
    }
    advance_queue(to_size(sent));
    if (to_size(sent) < total) return;
  }
}

void TcpLink::advance_queue(size_t bytes) {
  bytes_out_ += bytes;
  while (!queue_.empty()) {
    Outgoing& out = queue_.front();
    const size_t left = sizeof(Frame) + out.frame.bytes - out.done;
    if (bytes < left) {
      out.done += bytes;
      return;
    }
    bytes -= left;
    if (out.ticket != nullptr) out.ticket->finish();
    if (out.frame.kind == FrameKind::kProbe) bytes_probing_ += sizeof(Frame);
    queue_.pop_front();
  }
}

void TcpLink::read_some() {
  for (size_t budget = kReadBudget; budget != 0 && !closed();) {
    std::array<iovec, 2> parts;
    size_t count = 0;
    const size_t straight = in_payload_ && target_ != nullptr ? payload_left_ : 0;
    if (straight != 0) parts[count++] = {target_, straight};
    parts[count++] = {staging_.data(), staging_.size()};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t result = recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    if (result == 0) return close("the connection was closed");
    if (result < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return;
      broken_ = true;
      return close(system_error("the connection broke"));
    }
    const auto got = to_size(result);
    bytes_in_ += got;
    const size_t landed = std::min(got, straight);
    if (landed != 0) {
      target_ += landed;
      payload_left_ -= landed;
      if (payload_left_ == 0) finish_payload();
    }
    take(staging_.data(), got - landed);
    if (got < straight + staging_.size()) return;  // there was no more
    budget -= std::min(budget, got);
  }
}

void TcpLink::take(const std::byte* bytes, size_t count) {
  while (count != 0 && !closed()) {
    if (!in_payload_) {
      take_head(bytes, count);
      continue;
    }
    const size_t part = std::min(count, payload_left_);
    if (target_ != nullptr) {
      std::memcpy(target_, bytes, part);
      target_ += part;
    }
    bytes += part;
    count -= part;
    payload_left_ -= part;
    if (payload_left_ == 0) finish_payload();
  }
}

void TcpLink::take_head(const std::byte*& bytes, size_t& count) {
  const size_t part = std::min(count, sizeof(Frame) - head_bytes_);
  std::memcpy(reinterpret_cast<std::byte*>(&head_) + head_bytes_, bytes, part);
  bytes += part;
  count -= part;
  head_bytes_ += part;
  if (head_bytes_ < sizeof(Frame)) return;
  head_bytes_ = 0;
  if (const std::string error = frame_error(head_); !error.empty()) {
    return close(fmt::format("it sent something that is no frame: {}", error));
  }
  if (head_.kind == FrameKind::kProbe) bytes_probing_ += sizeof(Frame);
  target_ = sink_.begin_frame(peer_, head_);
  payload_left_ = head_.bytes;
  in_payload_ = true;
  if (payload_left_ == 0) finish_payload();
}

void TcpLink::finish_payload() {
  in_payload_ = false;
  target_ = nullptr;
  sink_.end_frame(peer_);
}

bool TcpLink::delivered() const {
  if (closed() || write_broken_) return true;  // nothing more can be done for it
  int unacknowledged = 0;
  if (ioctl(socket_.get(), SIOCOUTQ, &unacknowledged) != 0) return true;
  return bytes_out_ - static_cast<uint64_t>(unacknowledged) >= bytes_important_;
}

void TcpLink::shut_writing() { shutdown(socket_.get(), SHUT_WR); }

}  // namespace ds::detail
