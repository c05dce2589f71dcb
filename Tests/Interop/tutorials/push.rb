# SPDX-License-Identifier: Apache-2.0
# Sends notifications and reads feedback the way scripts for Ruby 1.9 did, with nothing but its standard library.
require 'json'
require 'openssl'
require 'socket'

TOKENS = %w[
  e1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90
  e2b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90
]

def connect(host, port)
  pem = File.read('provider-combined.pem')
  context = OpenSSL::SSL::SSLContext.new
  context.cert = OpenSSL::X509::Certificate.new(pem)
  context.key = OpenSSL::PKey::RSA.new(pem)
  socket = TCPSocket.new(host, port)
  ssl = OpenSSL::SSL::SSLSocket.new(socket, context)
  ssl.connect
  [socket, ssl]
end

socket, ssl = connect('gateway.push.apple.com', 2195)
TOKENS.each_with_index do |token, index|
  payload = { 'aps' => { 'alert' => 'Hello from Ruby', 'badge' => index } }.to_json
  head = index == 0 ? [0].pack('C') : [1, index, Time.now.to_i + 3600].pack('CNN')
  frame = head + [32, token, payload.bytesize].pack('nH*n') + payload.b
  ssl.write(frame)
  puts 'wrote ' + frame.unpack('H*').first
end
ssl.flush
ssl.close
socket.close

socket, ssl = connect('feedback.push.apple.com', 2196)
while (tuple = ssl.read(38))
  break if tuple.empty?
  puts 'dead ' + tuple.unpack('NnH*').last
end
ssl.close
socket.close
