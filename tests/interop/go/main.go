// The Go client beside guidepost.
//
//	client ADDRESS TOPIC COUNT SECONDS   sends and receives; prints "sent=N received=N strangers=N"
//	client ADDRESS list                  prints each topic of the name server on a line
//	client ADDRESS delete TOPIC          deletes a topic on the name server, and only there
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

func main() {
	rlog.SetLogLevel("error")
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0) // the clients' goroutines need not be waited for
}

func run(address string, arguments []string) error {
	names := primitive.NewPassthroughResolver([]string{address})
	switch arguments[0] {
	case "list":
		return list(names)
	case "delete":
		return remove(names, arguments[1])
	}
	count, err := strconv.Atoi(arguments[1])
	if err != nil {
		return err
	}
	seconds, err := strconv.Atoi(arguments[2])
	if err != nil {
		return err
	}
	return roundTrip(names, arguments[0], count, time.Duration(seconds)*time.Second)
}

func roundTrip(names primitive.NsResolver, topic string, count int, limit time.Duration) error {
	sent, err := send(names, topic, count)
	if err != nil {
		return err
	}
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(names),
		consumer.WithGroupName("consumer-of-"+topic),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return err
	}
	var lock sync.Mutex
	received, strangers, all := map[string]bool{}, 0, make(chan struct{})
	take := func(_ context.Context, messages ...*primitive.MessageExt) (
		consumer.ConsumeResult, error) {
		lock.Lock()
		defer lock.Unlock()
		for _, message := range messages {
			switch seen := message.MsgId + " " + string(message.Body); {
			case !sent[seen]:
				strangers++
			case !received[seen]:
				received[seen] = true
				if len(received) == len(sent) {
					close(all)
				}
			}
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := c.Subscribe(topic, consumer.MessageSelector{}, take); err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	select {
	case <-all:
	case <-time.After(limit):
	}
	lock.Lock()
	defer lock.Unlock()
	fmt.Printf("sent=%d received=%d strangers=%d\n", len(sent), len(received), strangers)
	return nil
}

// send returns "id body" of each message.
func send(names primitive.NsResolver, topic string, count int) (map[string]bool, error) {
	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(names), producer.WithGroupName("producer-of-"+topic))
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	sent := map[string]bool{}
	for i := 0; i < count; i++ {
		body := fmt.Sprintf("message %d", i)
		result, err := p.SendSync(context.Background(),
			primitive.NewMessage(topic, []byte(body)))
		if err != nil {
			return nil, err
		}
		if result.Status != primitive.SendOK {
			return nil, fmt.Errorf("not stored: %v", result)
		}
		sent[result.MsgID+" "+body] = true
	}
	return sent, p.Shutdown()
}

func list(names primitive.NsResolver) error {
	tool, err := admin.NewAdmin(admin.WithResolver(names))
	if err != nil {
		return err
	}
	topics, err := tool.FetchAllTopicList(context.Background())
	if err != nil {
		return err
	}
	for _, topic := range topics.TopicList {
		fmt.Println(topic)
	}
	return nil
}

func remove(names primitive.NsResolver, topic string) error {
	tool, err := admin.NewAdmin(admin.WithResolver(names))
	if err != nil {
		return err
	}
	return tool.DeleteTopic(context.Background(), admin.WithTopicDelete(topic))
}
