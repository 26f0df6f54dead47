// SPDX-License-Identifier: Apache-2.0
#include "cli/errors.hpp"

#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include <boost/system/system_error.hpp>

namespace numapool::cli {

int errno_of(const boost::system::error_code& code) noexcept {
  const bool is_errno = code.category() == boost::system::system_category() ||
                        code.category() == boost::system::generic_category();
  return is_errno ? code.value() : 0;
}

namespace {

report report_failure(const failure& why) {
  report told;
  told.code = name(static_cast<errc>(why.code.value()));
  told.message = why.message.empty() ? why.code.message() : why.message;
  told.operation = name(why.operation);
  told.node = why.node;
  told.size_bytes = why.size_bytes;
  told.error_number = errno_of(why.cause);
  return told;
}

report simple_report(std::string code, std::string message) {
  report told;
  told.code = std::move(code);
  told.message = std::move(message);
  return told;
}

// A file, a thread, a pipe: of this process alone, not of the memory that was asked for.
report refused_by_system(const std::string& reason, int error_number) {
  report told = simple_report("system_refused",
                              "the system refused this process something that it needs: " + reason +
                                  "; raise its limits (ulimit -a) and try again");
  told.error_number = error_number;
  return told;
}

report rethrow_and_report() {
  try {
    throw;
  } catch (const error& e) {
    return report_failure(e.why());
  } catch (const output_error& e) {
    report told = simple_report("output_not_written", e.what());
    told.error_number = e.error_number();
    return told;
  } catch (const interrupted& e) {
    report told = simple_report(std::string(name(errc::cancelled)), e.what());
    told.exit_status = signal_base + e.signal();
    return told;
  } catch (const usage_error& e) {
    report told = simple_report("usage", e.what());
    told.exit_status = exit_usage;
    return told;
  } catch (const std::system_error& e) {
    return refused_by_system(e.code().message(), e.code().value());
  } catch (const boost::system::system_error& e) {
    return refused_by_system(e.code().message(), errno_of(e.code()));
  } catch (const std::bad_alloc&) {
    return simple_report(std::string(name(errc::out_of_memory)),
                         "this process has no memory left for its own bookkeeping; "
                         "ask for less or raise its limits");
  } catch (const std::exception& e) {
    return simple_report("unexpected", std::string("unexpected failure: ") + e.what() +
                                           "; this is a bug of numapool, please report it");
  } catch (...) {
    return simple_report("unexpected",
                         "unexpected failure; this is a bug of numapool, please report it");
  }
}

}  // namespace

report report_current_exception() noexcept {
  try {
    return rethrow_and_report();
  } catch (...) {
    return {};  // not even memory for the sentence: the exit status alone speaks
  }
}

nlohmann::ordered_json error_document(const report& what) {
  nlohmann::ordered_json body;
  body["code"] = what.code;
  body["message"] = what.message;
  body["operation"] = what.operation;
  body["node"] = nullptr;
  if (!what.node.is_unknown()) {
    body["node"] = what.node.value();
  }
  body["bytes"] = what.size_bytes;
  body["errno"] = nullptr;
  if (what.error_number != 0) {
    body["errno"] = what.error_number;
  }
  nlohmann::ordered_json document;
  document["error"] = std::move(body);
  return document;
}

}  // namespace numapool::cli
