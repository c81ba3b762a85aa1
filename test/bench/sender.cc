#include "test/bench/sender.h"

#include <string_view>

#include "test/bench/moment.h"

namespace berth::bench {

struct Sender::Run {
    Batch batch;
    Done done;
    std::vector<Answer> answers;
    std::size_t next = 0, finished = 0;
};

namespace {

// The first uid of an answer is the object's own: fields come in the order of their names, but metadata's uid comes before any other
// object's in a pod that nobody owns.
std::string first_uid(std::string_view body) {
    constexpr std::string_view key = "\"uid\":\"";
    const auto at = body.find(key);
    if (at == std::string_view::npos)
        return {};
    const auto from = at + key.size();
    return std::string(body.substr(from, body.find('"', from) - from));
}

}  // namespace

std::string fill_in(std::string text, const std::map<std::string, std::string> &values) {
    for (const auto &[name, value] : values) {
        const std::string place = "@" + name + "@";
        for (std::size_t at = 0; (at = text.find(place, at)) != std::string::npos; at += value.size())
            text.replace(at, place.size(), value);
    }
    return text;
}

void Sender::send(Batch batch, Done done) {
    auto run = std::make_shared<Run>();
    run->batch = std::move(batch);
    run->done = std::move(done);
    run->answers.resize(run->batch.values.size());
    if (run->batch.values.empty())
        return run->done({});
    for (unsigned i = 0; i < run->batch.window; ++i)
        next(run);
}

void Sender::next(const std::shared_ptr<Run> &run) {
    if (run->next == run->answers.size())
        return;
    const std::size_t index = run->next++;
    const Batch &batch = run->batch;
    kube::Request request;
    request.method = batch.method;
    request.path = fill_in(batch.path, batch.values[index]);
    request.body = fill_in(batch.body, batch.values[index]);
    request.content_type = batch.content_type;
    request.timeout = std::chrono::minutes(2);
    run->answers[index].sent = moment();
    http_.send(std::move(request), [this, run, index](kube::Response response) {
        Answer &answer = run->answers[index];
        answer.answered = moment();
        answer.status = response.status;
        answer.error = response.error;
        answer.uid = first_uid(response.body);
        if (++run->finished == run->answers.size())
            return run->done(std::move(run->answers));
        next(run);
    });
}

}  // namespace berth::bench
