// SPDX-License-Identifier: Apache-2.0
#pragma once

// with_details(): futures and awaitables of an allocation that throw numapool::error, with its
// why(), instead of a boost::system::system_error that has the code alone. Threads: values; safe.

#include <exception>
#include <type_traits>
#include <utility>

#include <boost/asio/associator.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/system/error_code.hpp>

#include <numapool/buffer.hpp>

namespace numapool {

/// What with_details() returns. No aggregate, so that it may be written inside a co_await
/// expression (GCC bug 98401 and its kin).
template <typename CompletionToken>
class with_details_token {
 public:
  template <typename Token>
  explicit with_details_token(std::in_place_t, Token&& token)
      : token_(std::forward<Token>(token)) {}
  [[nodiscard]] const CompletionToken& token() const& noexcept { return token_; }
  [[nodiscard]] CompletionToken&& token() && noexcept { return std::move(token_); }

 private:
  CompletionToken token_;
};

/// Adapts `token` so that an operation for void(boost::system::error_code, buffer) completes it
/// with void(std::exception_ptr, buffer), the pointer null or to a numapool::error:
/// `pool.async_allocate(what, numapool::with_details(boost::asio::use_future))`. The handler's
/// executor, allocator and cancellation slot are those of `token`.
template <typename CompletionToken>
[[nodiscard]] with_details_token<std::decay_t<CompletionToken>> with_details(
    CompletionToken&& token) {
  return with_details_token<std::decay_t<CompletionToken>>(std::in_place,
                                                           std::forward<CompletionToken>(token));
}

namespace detail {

/// A numapool::error with the details of an empty buffer; null when `error` is none.
[[nodiscard]] std::exception_ptr exception_of(boost::system::error_code error,
                                              const buffer& delivered) noexcept;

template <typename Handler>
struct with_details_handler {
  void operator()(boost::system::error_code error, buffer delivered) {
    std::exception_ptr thrown = exception_of(error, delivered);
    std::move(handler)(std::move(thrown), std::move(delivered));
  }
  Handler handler;
};

template <typename Initiation>
struct with_details_initiation {
  template <typename Handler, typename... Arguments>
  void operator()(Handler&& handler, Arguments&&... arguments) {
    std::move(initiation)(
        with_details_handler<std::decay_t<Handler>>{std::forward<Handler>(handler)},
        std::forward<Arguments>(arguments)...);
  }
  Initiation initiation;
};

}  // namespace detail
}  // namespace numapool

template <typename CompletionToken>
struct boost::asio::async_result<numapool::with_details_token<CompletionToken>,
                                 void(boost::system::error_code, numapool::buffer)> {
  template <typename Initiation, typename Token, typename... Arguments>
  static auto initiate(Initiation&& initiation, Token&& token, Arguments&&... arguments) {
    CompletionToken inner(std::forward<Token>(token).token());
    return boost::asio::async_initiate<CompletionToken, void(std::exception_ptr, numapool::buffer)>(
        numapool::detail::with_details_initiation<std::decay_t<Initiation>>{
            std::forward<Initiation>(initiation)},
        inner, std::forward<Arguments>(arguments)...);
  }
};

template <template <typename, typename> class Associator, typename Handler, typename Default>
struct boost::asio::associator<Associator, numapool::detail::with_details_handler<Handler>, Default>
    : Associator<Handler, Default> {
  static auto get(const numapool::detail::with_details_handler<Handler>& from) noexcept {
    return Associator<Handler, Default>::get(from.handler);
  }
  static auto get(const numapool::detail::with_details_handler<Handler>& from,
                  const Default& otherwise) noexcept {
    return Associator<Handler, Default>::get(from.handler, otherwise);
  }
};
