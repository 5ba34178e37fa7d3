//! The client of rocketmq-rust: `guidepost-interop ADDRESS TOPIC COUNT SECONDS` sends messages,
//! receives them, and prints `sent=N received=N strangers=N`.

use std::collections::HashSet;
use std::error::Error;
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rocketmq_client_rust::{
    ClientResult, ClientRuntime, ClientRuntimeConfig, ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus, DefaultMQProducer, DefaultMQPushConsumer, MQPushConsumer,
    MessageListenerConcurrently,
};
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_model::common::message::message_single::Message;
use rocketmq_runtime::{RuntimeConfig, RuntimeOwner};

/// How often the main thread looks at [`RECEIVED`], which the client's threads fill.
const LOOK: Duration = Duration::from_millis(50);

/// The bodies that came, with repetitions.
static RECEIVED: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Receive;

impl MessageListenerConcurrently for Receive {
    fn consume_message(
        &self,
        messages: &[&MessageExt],
        _: &ConsumeConcurrentlyContext,
    ) -> ClientResult<ConsumeConcurrentlyStatus> {
        let bodies = messages.iter().map(|message| {
            let body = message.body().unwrap_or_default();
            String::from_utf8_lossy(&body).into_owned()
        });
        RECEIVED.lock().unwrap().extend(bodies);
        Ok(ConsumeConcurrentlyStatus::ConsumeSuccess)
    }
}

fn distinct() -> HashSet<String> {
    RECEIVED.lock().unwrap().iter().cloned().collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, topic, count, seconds] = &arguments[..] else {
        return Err("arguments: ADDRESS TOPIC COUNT SECONDS".into());
    };
    let (count, limit) = (count.parse::<usize>()?, Duration::from_secs(seconds.parse()?));

    let config = RuntimeConfig { thread_name: "interop".into(), ..Default::default() };
    let owner = RuntimeOwner::plan(config)?.build()?;
    let telemetry = rocketmq_observability::install_global(&Default::default())?;
    let runtime = || {
        let context = owner.root_context().component("client");
        ClientRuntime::try_new(context, ClientRuntimeConfig::default(), telemetry.handle())
    };

    let mut producer = DefaultMQProducer::builder(runtime()?)
        .producer_group(format!("producer-of-{topic}"))
        .name_server_addr(address.clone())
        .build();
    producer.start().await?;
    let mut sent = HashSet::new();
    for i in 0..count {
        let body = format!("message {i}");
        let message =
            Message::builder().topic(topic).tags("tag").body_slice(body.as_bytes()).build()?;
        producer.send_with_timeout(message, 3000).await?;
        sent.insert(body);
    }

    let mut consumer = DefaultMQPushConsumer::builder(runtime()?)
        .consumer_group(format!("consumer-of-{topic}"))
        .name_server_addr(address.clone())
        .build();
    consumer.subscribe(topic, "*").await?;
    consumer.register_message_listener_concurrently(Receive);
    consumer.start().await?;
    let began = Instant::now();
    while !sent.is_subset(&distinct()) && began.elapsed() < limit {
        tokio::time::sleep(LOOK).await;
    }

    let received = distinct();
    println!(
        "sent={} received={} strangers={}",
        sent.len(),
        received.intersection(&sent).count(),
        received.difference(&sent).count()
    );
    std::io::stdout().flush()?;
    std::process::exit(0); // threads of the clients would keep the process
}
